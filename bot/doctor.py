"""`pitstop doctor SCRIPT`: what a launch script of Relax wastes, in time and in memory."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitstop.bot.language import Translate, texts
from pitstop.rules.finding import Finding, Severity, UserError
from pitstop.rules.relax.context import Run
from pitstop.rules.relax.rule import RelaxRule, fill, is_relax, on_card, relax_rules
from pitstop.rules.tree import FolderTree

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

VERSION = 1
SECTIONS = (
    ("performance", "Performance findings", "R-P"),
    ("memory", "Memory findings", "R-M"),
    ("startup", "Start-up failures", "V-"),
)
TITLES = {
    Severity.CRITICAL: "CRITICAL",
    Severity.WARNING: "WARN",
    Severity.INFO: "INFO",
}


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """One launch of a script and what was found in it."""

    script: str
    condition: str | None
    context: str
    contradictions: tuple[str, ...]
    findings: tuple[Finding, ...]

    def of(self, prefix: str) -> list[Finding]:
        """Findings of one section, the worst first."""
        found = [one for one in self.findings if one.rule.startswith(prefix)]
        return sorted(found, key=lambda one: (-one.severity, one.rule))

    def count(self, severity: Severity) -> int:
        """Findings of one severity."""
        return sum(one.severity is severity for one in self.findings)

    @property
    def top(self) -> Finding | None:
        """What to do first: the worst, start-up failures before all others."""
        order = {"V": 0, "R": 1}
        ranked = sorted(self.findings, key=lambda f: (-f.severity, order[f.rule[0]], f.rule))
        return ranked[0] if ranked else None


def run(options: argparse.Namespace) -> int:
    """Print the report. Returns 1 when a finding is at or over --fail-on."""
    found = list(diagnose(options.script, options.gpu))
    if not found:
        raise UserError(
            f"{options.script}: no launch of Relax (`-m relax.entrypoints.train`) is in it"
        )
    say = texts(options.lang)
    if options.format == "json":
        print(json.dumps([_record(one) for one in found], indent=1, ensure_ascii=False))
    else:
        print("\n\n".join(_page(one, say, plain=options.format == "text") for one in found))
    return _exit_code(found, options.fail_on)


def diagnose(path: Path, gpu: str | None = None) -> Iterator[Diagnosed]:
    """Every launch of Relax in a script or below a folder. Raises UserError for a path that is
    not there or a GPU that is not known."""
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; give a launch script")
    root, inside = _root_of(path)
    facts = _facts(root)
    for job in facts.jobs:
        if not is_relax(job) or job.launch is None:
            continue
        script = job.launch.location.path
        if inside and script != inside and not script.startswith(f"{inside}/"):
            continue
        try:
            yield diagnosed(on_card(job, facts, gpu), facts)
        except ValueError as error:
            raise UserError(f"--gpu: {error}; give a name such as H20, H100 or A100-80") from error


def diagnosed(launch: Run, facts: ProjectFacts) -> Diagnosed:
    """One launch, judged by every rule, without what a comment in the script answers."""
    from pitstop.rules.engine import without_suppressed

    found = [one for rule in relax_rules() for one in rule.judge(launch)]
    return Diagnosed(
        launch.script,
        launch.condition,
        launch.context_line(),
        tuple(launch.contradictions()),
        tuple(without_suppressed(found, facts)),
    )


def _facts(root: Path) -> ProjectFacts:
    from pitstop.rules.facts import gather

    return gather(FolderTree(root))


def _root_of(path: Path) -> tuple[Path, str]:
    """The repository that a path lies in (its model configurations are needed, too), and the
    path inside it."""
    path = path.resolve()
    folder = path if path.is_dir() else path.parent
    for parent in (folder, *folder.parents):
        models = (parent / "scripts" / "models").is_dir()
        if (parent / ".git").exists() or models or (parent / "relax" / "entrypoints").is_dir():
            inside = path.relative_to(parent).as_posix()
            return parent, "" if inside == "." else inside
    return folder, "" if path.is_dir() else path.name


def _exit_code(found: Iterable[Diagnosed], fail_on: str) -> int:
    if fail_on == "never":
        return 0
    least = Severity[fail_on.upper()]
    return int(any(f.severity >= least for one in found for f in one.findings))


def _record(one: Diagnosed) -> dict[str, Any]:
    top = one.top
    return {
        "version": VERSION,
        "script": one.script,
        "condition": one.condition,
        "context": one.context,
        "contradictions": list(one.contradictions),
        "findings": [
            {
                "rule": found.rule,
                "severity": found.severity.label,
                "title": found.title,
                "setting": found.evidence.get("setting", ""),
                "path": found.primary.path,
                "line": found.primary.line,
                "cost": found.cost,
                "fix": found.advice,
                "skip_if": found.leave_when,
                "why": found.message,
            }
            for _, _, prefix in SECTIONS
            for found in one.of(prefix)
        ],
        "summary": {
            **{severity.label: one.count(severity) for severity in reversed(Severity)},
            "top": top.rule if top else None,
        },
    }


def _page(one: Diagnosed, say: Translate, *, plain: bool) -> str:
    from pitstop.bot.render import render

    sections = [
        (say(title), [_shown(found, say) for found in one.of(prefix)])
        for name, title, prefix in SECTIONS
        if name != "startup" or one.of(prefix)
    ]
    top = one.top
    page = render(
        "doctor.md.j2",
        script=one.script.rsplit("/", 1)[-1],
        path=one.script,
        condition=one.condition or "",
        context=one.context,
        contradictions=[say(text) for text in one.contradictions],
        sections=sections,
        counts=[(say(TITLES[s]), one.count(s)) for s in reversed(Severity)],
        top=f"{top.rule} {say(top.title)}: {_shown(top, say)['fix']}"
        if top
        else say("nothing to do"),
        say=say,
    )
    return _plain(str(page)) if plain else str(page)


def _shown(found: Finding, say: Translate) -> dict[str, str]:
    """A finding in a language: the rule's sentences are translated, then filled."""
    rule, said = _rules()[found.rule], found.evidence
    values = {
        name.removeprefix("value "): say(text)
        for name, text in said.items()
        if name.startswith("value ")
    }
    cost, why = fill(say(rule.info.cost), values), say(rule.info.sections.why)
    if said.get("anchor"):
        cost += f" ({said['anchor']})"
    if said.get("note"):
        why += f" {say('Beside it stands')}: {said['note']}"
    return {
        "head": f"[{say(TITLES[found.severity])}] {found.rule} - {say(found.title)}",
        "setting": said.get("setting", ""),
        "place": f"{found.primary.path.rsplit('/', 1)[-1]}:{found.primary.line}",
        "cost": cost,
        "fix": fill(say(rule.fix), values),
        "skip": say(rule.info.sections.leave_when),
        "why": why,
    }


@functools.cache
def _rules() -> dict[str, RelaxRule]:
    return {rule.info.id: rule for rule in relax_rules()}


def _plain(page: str) -> str:
    """The report for a terminal: without the marks of Markdown."""
    import re

    page = re.sub(r"\\([^\w\s])", r"\1", page)
    return re.sub(r"`([^`\n]+)`", r"\1", page).replace("**", "").rstrip()
