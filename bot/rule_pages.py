"""What `pitstop rules` prints, and the pages in docs/rules: all from the rules themselves."""

from __future__ import annotations

import html
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
    "swift": "ms-swift",
    "videox_fun": "VideoX-Fun",
    "flow_factory": "Flow-Factory",
    "deepspeed": "DeepSpeed",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "relax": "Relax",
}
"""Titles of catalogues; one that is not here goes by its own name."""

_SEARCH = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Rules of Pitstop</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
input { font: inherit; width: 100%; padding: .5rem; box-sizing: border-box }
table { border-collapse: collapse; width: 100%; margin-top: 1rem }
td, th { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884 }
tr[hidden] { display: none }
</style></head><body>
<h1>Rules of Pitstop</h1>
<input id="words" type="search" placeholder="words, such as: loader workers" autofocus>
<p id="count"></p>
<table><thead><tr><th>rule</th><th>what it finds</th><th>severity</th><th>fix</th><th>for</th></tr>
</thead><tbody>
ROWS
</tbody></table>
<script>
const input = document.getElementById("words"), rows = [...document.querySelectorAll("tbody tr")];
function show() {
  const words = input.value.toLowerCase().split(/ +/).filter(Boolean);
  for (const row of rows) row.hidden = !words.every(word => row.dataset.words.includes(word));
  document.getElementById("count").textContent = rows.filter(row => !row.hidden).length + " rules";
}
input.addEventListener("input", show);
show();
</script></body></html>
"""

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
    """The list of all rules and the page of each, in one document."""
    infos = tuple(infos)
    return render.render(
        "rules.md.j2",
        count=len(infos),
        groups=[(title, [_row(info) for info in group]) for title, group in _grouped(infos)],
        pages=[Markdown(page(info)) for _, group in _grouped(infos) for info in group],
    )


def site(infos: Iterable[RuleInfo]) -> Iterator[tuple[str, str]]:
    """The documents of docs/: a list, a page for each catalogue, and one to search in; each with
    its path."""
    infos = tuple(infos)
    groups = [
        (title, [_row(info, f"rules/{info.catalogue}.md") for info in group])
        for title, group in _grouped(infos)
    ]
    yield "rules.md", render.render("rules.md.j2", count=len(infos), groups=groups, pages=[])
    for title, group in _grouped(infos):
        pages = [Markdown(page(info)) for info in group]
        yield (
            f"rules/{group[0].catalogue}.md",
            render.render("catalogue.md.j2", title=title, rows=map(_row, group), pages=pages),
        )
    yield "rules/search.html", _search_page(infos)


def _search_page(infos: Iterable[RuleInfo]) -> str:
    """A page that finds rules by words while they are typed; it asks no other host."""
    rows = []
    for title, group in _grouped(infos):
        for info in group:
            words = " ".join((info.title, info.sections.what, info.sections.why, info.sections.fix))
            cells = (info.id, info.title, info.severity.label, info.safety.value, title)
            shown = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells[1:])
            address = f"{info.catalogue}.md#{info.name}"
            rows.append(
                f'<tr data-words="{html.escape(" ".join((*cells, info.name, words)).lower())}">'
                f'<td><a href="{address}">{html.escape(info.id)}</a></td>{shown}</tr>'
            )
    return _SEARCH.replace("ROWS", "\n".join(rows))


def _grouped(infos: Iterable[RuleInfo]) -> Iterator[tuple[str, tuple[RuleInfo, ...]]]:
    order = sorted(infos, key=lambda info: (_place(info.catalogue), info.id))
    for catalogue, group in itertools.groupby(order, key=lambda info: info.catalogue):
        yield CATALOGUES.get(catalogue, catalogue), tuple(group)


def _place(catalogue: str) -> tuple[int, str]:
    names = list(CATALOGUES)
    return (names.index(catalogue) if catalogue in names else len(names), catalogue)


def _row(info: RuleInfo, document: str = "") -> tuple[Markdown, str, str, str]:
    where = link(code(info.id), f"{document}#{info.name}")
    return where, info.title, info.severity.label, info.safety.value


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
