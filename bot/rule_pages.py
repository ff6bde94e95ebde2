"""What `pitstop rules` prints, and the page docs/rules.md: all of it from the rules themselves."""

from __future__ import annotations

import itertools
import json
import typing
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from pitstop.bot import render, wire
from pitstop.bot.config_text import did_you_mean
from pitstop.bot.markdown import Markdown, code, fenced, link
from pitstop.rules import engine
from pitstop.rules.finding import UserError
from pitstop.rules.rule import SECTION_TITLES, Bad, RuleInfo

if typing.TYPE_CHECKING:
    from rich.console import Console

CATALOGUES = {
    "general": "Any PyTorch training",
    "hf_trainer": "Hugging Face Trainer",
    "llamafactory": "LLaMA-Factory",
    "deepspeed": "DeepSpeed",
}
"""Titles of catalogues; one that is not here goes by its own name."""

_LANGUAGES = {".py": "python", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}


def show(word: str | None, form: str, file: typing.TextIO) -> None:
    """Print all rules, or the one that a word names. Raises UserError for an unknown word."""
    infos = engine.all_rules() if word is None else (named(word),)
    if form == "json":
        file.write(json.dumps([_data(info) for info in infos], indent=1) + "\n")
    elif form == "md":
        file.write(all_pages(infos) if word is None else page(infos[0]))
    elif word is None:
        _print_list(infos, file)
    else:
        _print_page(infos[0], file)


def named(word: str) -> RuleInfo:
    """The rule of an id or a name, letter case ignored."""
    infos = engine.all_rules()
    for info in infos:
        if word.lower() in (info.id.lower(), info.name):
            return info
    hint = did_you_mean(word, [name for info in infos for name in (info.id, info.name)])
    raise UserError(f"{word!r} is not a rule; {hint} (`pitstop rules` lists all).")


def page(info: RuleInfo) -> str:
    """One rule's page in Markdown."""
    return render.render("rule.md.j2", info=info, **_parts(info))


def all_pages(infos: Iterable[RuleInfo]) -> str:
    """The list of all rules and the page of each, as docs/rules.md holds them."""
    infos = tuple(infos)
    return render.render(
        "rules.md.j2",
        count=len(infos),
        groups=[(title, [_row(info) for info in group]) for title, group in _grouped(infos)],
        pages=[Markdown(page(info)) for _, group in _grouped(infos) for info in group],
    )


def _grouped(infos: Iterable[RuleInfo]) -> Iterator[tuple[str, tuple[RuleInfo, ...]]]:
    order = sorted(infos, key=lambda info: (_place(info.catalogue), info.id))
    for catalogue, group in itertools.groupby(order, key=lambda info: info.catalogue):
        yield CATALOGUES.get(catalogue, catalogue), tuple(group)


def _place(catalogue: str) -> tuple[int, str]:
    names = list(CATALOGUES)
    return (names.index(catalogue) if catalogue in names else len(names), catalogue)


def _row(info: RuleInfo) -> tuple[Markdown, str, str, str]:
    return link(code(info.id), f"#{info.name}"), info.title, info.severity.label, info.safety.value


def _parts(info: RuleInfo) -> dict[str, object]:
    """What the template cannot ask of a rule by itself. Sections are Markdown of ours."""
    return {
        "anchor": Markdown(f'<a id="{info.name}"></a>'),
        "severity": info.severity.label,
        "safety": info.safety.value,
        "priority": info.priority.value,
        "sections": [
            (title, Markdown(getattr(info.sections, name)))
            for name, title in SECTION_TITLES.items()
        ],
        "cost": Markdown(info.cost),
        "bad": [
            (list(_files(example.files)), list(_files(example.fixed))) for example in info.bad[:1]
        ],
        "good": [(Markdown(example.why), list(_files(example.files))) for example in info.good[:1]],
        "sources": Markdown(", ".join(f"<{source}>" for source in info.sources)),
    }


def _files(files: typing.Mapping[str, str]) -> Iterator[tuple[Markdown, Markdown]]:
    for path, text in files.items():
        yield code(path), fenced(text, _LANGUAGES.get(PurePosixPath(path).suffix, "text"))


def _data(info: RuleInfo) -> wire.Json:
    data = wire.encode(info)
    assert isinstance(data, dict)  # noqa: S101
    return data


def _print_list(infos: Iterable[RuleInfo], file: typing.TextIO) -> None:
    from rich.table import Table
    from rich.text import Text

    from pitstop.bot.text import COLOURS, console

    out = console(file)
    for title, group in _grouped(infos):
        table = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left")
        for heading in ("id", "severity", "fix", "name", "what it finds"):
            table.add_column(heading, no_wrap=heading in ("id", "severity", "fix"), overflow="fold")
        for info in group:
            severity = Text(info.severity.label, COLOURS[info.severity])
            table.add_row(info.id, severity, info.safety.value, info.name, info.title)
        out.print(table)
        out.print()
    out.print("`pitstop rules ID` explains one.")


def _print_page(info: RuleInfo, file: typing.TextIO) -> None:
    from rich.text import Text

    from pitstop.bot.text import COLOURS, console

    out = console(file)
    severity = (info.severity.label, COLOURS[info.severity])
    out.print(Text.assemble((f"{info.id} ", "bold"), (info.title, "bold")))
    out.print(Text.assemble(info.name, " · ", severity, f" · fix: {info.safety.value}"))
    for name, title in SECTION_TITLES.items():
        _print_section(out, title, getattr(info.sections, name))
    _print_section(out, "Expected effect", info.cost)
    for example in info.bad[:1]:
        _print_example(out, example)
    out.print("\nSources", style="bold")
    for source in info.sources:
        out.print(f"  {source}", soft_wrap=True)  # an address stays whole, to be opened


def _print_section(out: Console, title: str, text: str) -> None:
    from rich.padding import Padding

    out.print(f"\n{title}", style="bold")
    out.print(Padding(text, (0, 0, 0, 2), expand=False))


def _print_example(out: Console, example: Bad) -> None:
    for path, text in example.files.items():
        out.print(f"\nExample: {path}", style="bold")
        for number, line in enumerate(text.splitlines(), start=1):
            here = path == example.path and number == example.line
            mark, style = (">", "yellow") if here else (" ", "dim")
            out.print(f"{mark}{number:>4} │ {line}", style=style, no_wrap=True, overflow="ellipsis")
