"""Training jobs: every run that a repository describes, resolved to settings with provenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pitstop.rules.detection import Evidence, recognise
from pitstop.rules.finding import Location, Setting, Surface, Unknown, Unread
from pitstop.rules.frameworks import Framework, frameworks
from pitstop.rules.hardware import find_gpu, hardware_of
from pitstop.rules.job import FrameworkUse, HardwareFacts, TrainingJob
from pitstop.rules.job_code import (
    anchored_defaults,
    config_calls,
    from_program,
)
from pitstop.rules.job_command import from_first_word, from_json_flags
from pitstop.rules.job_draft import (
    Draft,
    commented_files,
    draft_of,
    files_of,
    headers_of,
    identity,
    location_of,
    title,
)
from pitstop.rules.job_files import NamedConfig, config_location, follow
from pitstop.rules.job_modules import does_something_else
from pitstop.rules.job_parallel import with_parallelism
from pitstop.rules.job_settings import (
    Written,
    at_place,
    default_settings,
    from_config,
    from_env,
    from_flags,
    settle,
    spelled_out,
)
from pitstop.rules.job_start import Start
from pitstop.rules.models import model_of
from pitstop.rules.scope import Scope
from pitstop.rules.sources import Sources
from pitstop.rules.versions import Versions

NEVER_TRAINS = ("api", "chat", "export", "webchat", "webui", "env", "version", "eval", "help")
"""Subcommands of LLaMA-Factory and ms-swift that start something else."""


def resolve(
    start: Start,
    sources: Sources,
    scope: Scope,
    versions: Versions,
    hardware: HardwareFacts | None = None,
) -> TrainingJob | None:
    """The job that begins at a start, or None when it is none: a program that does not train,
    an export, a set-up command."""
    draft = draft_of(start, sources, scope)
    evidence = Evidence(
        start.launch,
        draft.program,
        tuple(c.config for c in draft.configs),
        {use.name: str(use.first()) for use in (*draft.uses, *draft.launcher_uses)},
        versions,
        sources.paths,
    )
    uses = recognise(evidence)
    purpose = _purpose(draft, uses)
    if purpose is None:
        return None
    return _job(draft, uses, purpose, sources, versions, hardware)


def _purpose(draft: Draft, uses: tuple[FrameworkUse, ...]) -> str | None:
    """ "train", "serve", or None for what is no job of ours."""
    if not uses:
        return None
    leader = frameworks()[uses[0].name]
    if leader.kind == "engine":
        return "serve"
    launch = draft.start.launch
    if launch and launch.args and launch.args[0].text in NEVER_TRAINS:
        return None
    if draft.entry is not None:
        first = draft.program.entry
        if does_something_else(draft.entry) and not (first is not None and first.trains):
            return None
        if leader.name in ("pytorch", "hf_trainer"):
            return "train" if draft.program.trains else None
    if leader.detection.job_keys and not _says_that_it_trains(draft, leader):
        return None
    if _only_evaluates(draft):
        return None
    return "train" if leader.kind == "main" and leader.name != "pytorch" else None


def _only_evaluates(draft: Draft) -> bool:
    """True for the flags of a transformers example script that ask for evaluation alone."""
    given = draft.line.given
    return "do_train" not in given and ("do_eval" in given or "do_predict" in given)


def _says_that_it_trains(draft: Draft, leader: Framework) -> bool:
    """False only when everything that could say `do_train: true` was read and does not."""
    given = draft.line.given
    for key in leader.detection.job_keys:
        value: object = None
        for named in draft.configs:
            entry = named.config.get(*key.split("."))
            value = entry.value if entry else value
        if key in given:
            value = str(given[key].first()).lower() not in ("false", "0", "no")
        readable = bool(draft.configs) or bool(draft.uses)
        if readable and not (draft.more or draft.missing) and value in (None, False):
            return False
    return True


# --- settings ---------------------------------------------------------------------------------


def decoders(uses: Iterable[FrameworkUse]) -> tuple[Framework, ...]:
    """The frameworks whose names count in a job: a dialect replaces what it extends, and plain
    PyTorch, whose environment variables hold everywhere, comes last."""
    named = [frameworks()[use.name] for use in uses]
    replaced = {f.part_of for f in named if f.part_of}
    dialects = [f for f in named if f.part_of]
    others = [f for f in named if not f.part_of and f.name not in replaced]
    found = dict.fromkeys((*dialects, *others))
    found.pop(frameworks()["pytorch"], None)
    return (*found, frameworks()["pytorch"])


def _job(
    draft: Draft,
    uses: tuple[FrameworkUse, ...],
    purpose: str,
    sources: Sources,
    versions: Versions,
    hardware: HardwareFacts | None,
) -> TrainingJob:
    launch = draft.start.launch
    speakers = decoders(uses)
    own = tuple(c for c in draft.configs if _reader(c, speakers) is not None)
    written = tuple(_written(draft, speakers))
    followed = tuple(follow(written, own, draft.start, sources, draft.folders))
    configs = (*own, *followed)
    uses = _with_helpers(uses, followed, versions)
    speakers = decoders(uses)
    for named in followed:
        reader = _reader(named, speakers)
        written += tuple(from_config(reader, named.config)) if reader else ()
    settled = _with_defaults(written, draft, configs, speakers, versions)
    settings, launch = with_parallelism(settled, launch, configs, speakers)
    entry = draft.entry
    paths = dict.fromkeys(c.config.path for c in configs)
    machine = hardware_of(launch, headers_of(draft), commented_files(draft, sources))
    return TrainingJob(
        id=identity(draft),
        title=title(draft, uses),
        purpose=purpose,
        frameworks=uses,
        settings=settings,
        launch=launch,
        entry=entry,
        configs=tuple(paths),
        files=frozenset(files_of(draft, paths)),
        model=model_of(settings, sources, draft.folders),
        hardware=_merged(hardware, machine),
        location=location_of(draft),
        unread=tuple(_unread(draft, settings)),
    )


def _written(draft: Draft, speakers: tuple[Framework, ...]) -> Iterator[Written]:
    launch = draft.start.launch
    for framework in speakers:
        if _takes_flags(framework, draft):
            yield from from_flags(framework, draft.uses)
            yield from from_json_flags(framework, draft.uses)
            yield from from_first_word(framework, launch)
        if framework.name == "accelerate":
            yield from from_flags(framework, draft.launcher_uses)
        if launch is not None:
            yield from from_env(framework, launch.env)
        yield from from_program(framework, draft.program, draft.line)
    for named in draft.configs:
        reader = _reader(named, speakers)
        if reader is not None:
            yield from from_config(reader, named.config)


def _reader(named: NamedConfig, speakers: tuple[Framework, ...]) -> Framework | None:
    """The framework in whose words a job reads a file: the dialect of the framework that the
    file is written for; the job's own for a file that does not tell, when it knows some key."""
    if named.framework is None:
        own = speakers[0]
        known = own.kind != "engine" and any(map(own.knows, named.config.keys()))
        return own if known and own.name != "pytorch" else None
    for framework in speakers:
        if named.framework.name in (framework.extends, framework.part_of):
            return framework
    return named.framework


def _takes_flags(framework: Framework, draft: Draft) -> bool:
    """Whether the framework itself parses the program's command line."""
    if framework.name == "accelerate":
        return False
    if not framework.parsers or draft.entry is None:
        return True
    return draft.program.makes(framework.parsers)


def _with_helpers(
    uses: tuple[FrameworkUse, ...], followed: Iterable[NamedConfig], versions: Versions
) -> tuple[FrameworkUse, ...]:
    """The uses, and a helper for each config file of its kind that the job reads."""
    found = {use.name: use for use in uses}
    for named in followed:
        framework = named.framework
        if framework and framework.kind == "helper" and framework.name not in found:
            pin = next((versions[p] for p in framework.packages if p in versions), "")
            at = config_location(named.config)
            found[framework.name] = FrameworkUse(
                framework.name, pin, f"config {named.config.path}", at
            )
    return tuple(found.values())


def _with_defaults(
    written: tuple[Written, ...],
    draft: Draft,
    configs: tuple[NamedConfig, ...],
    speakers: tuple[Framework, ...],
    versions: Versions,
) -> dict[str, tuple[Setting, ...]]:
    """Settings with what each framework does by itself at their end: first what calls do that
    leave a keyword out, then the defaults of the frameworks, of which the first has the say."""
    settings = settle(written)
    places = spelled_out(written)
    found = dict(settings)
    for framework in speakers:
        for anchored in anchored_defaults(framework, draft.program):
            found[anchored.knob] = (*found.get(anchored.knob, ()), anchored)
    done: set[str] = set()
    for framework in speakers:
        doubt, anchor = _doubt(framework, draft, configs)
        defaults = default_settings(
            framework,
            versions,
            settings,
            doubt=doubt,
            mentions=draft.program.mentions,
            anchor=anchor,
        )
        for default in defaults:
            if default.knob not in done:
                done.add(default.knob)
                shown = at_place(default, places.get(default.knob))
                found[default.knob] = (*found.get(default.knob, ()), shown)
    return found


def _doubt(
    framework: Framework, draft: Draft, configs: tuple[NamedConfig, ...]
) -> tuple[Unknown | None, Location | None]:
    """Why a framework's defaults may not hold, and the call at which they do."""
    if draft.more:
        return Unknown("the command line may pass more"), None
    if draft.missing:
        return Unknown(f"{draft.missing[0]} is not in the repository"), None
    if framework.name == "pytorch":
        return (None if draft.program.trains else Unknown("the program's code is not here")), None
    if framework.kind == "helper" and not framework.part_of:
        read = any(c.framework is framework for c in configs)
        return (None if read else Unknown("its configuration cannot be read")), None
    if framework.parsers:
        reads = draft.start.launch is not None and _takes_flags(framework, draft)
    else:
        own = draft.entry is None or any(framework.knows(use.name) for use in draft.uses)
        reads = own or any(_reader(c, (framework,)) is framework for c in configs)
    if reads:
        return None, None
    calls = config_calls(framework, draft.program)
    if not calls or any(call.open_ended for call in calls):
        return Unknown("its arguments come from somewhere that cannot be read"), None
    return None, calls[0].location


def _merged(given: HardwareFacts | None, found: HardwareFacts) -> HardwareFacts:
    """What the user says of the machine before what the files say."""
    if given is None:
        return found
    named = find_gpu(given.gpu) if given.gpu and given.memory is None else None
    return replace(
        given,
        gpu=given.gpu or found.gpu,
        memory=given.memory or (named.memory if named else None if given.gpu else found.memory),
        capability=given.capability
        or (named.capability if named else None if given.gpu else found.capability),
        gpus_per_node=given.gpus_per_node or found.gpus_per_node,
        nodes=given.nodes or found.nodes,
    )


_TYPED = (Surface.FLAG, Surface.ENV, Surface.YAML, Surface.JSON, Surface.TOML)


def _unread(draft: Draft, settings: Mapping[str, tuple[Setting, ...]]) -> Iterator[Unread]:
    """What the starting script hid, and the settings of the command line and of config files
    whose value could not be resolved. What Python computes is not listed."""
    if draft.start.script is not None:
        yield from draft.start.script.unread
    for knob, found in settings.items():
        first = found[0]
        at = first.where
        if first.surface in _TYPED and isinstance(first.value, Unknown) and at is not None:
            yield Unread(at.path, f"{knob}: {first.value.why}", at.line)
