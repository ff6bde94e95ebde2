"""Writes the pages and schemas that are made from the code. `make docs` runs it; tests hold the
committed files equal to what it would write."""

from __future__ import annotations

import argparse
import json
import typing
from collections.abc import Iterator
from pathlib import Path

from pitstop.bot import cli, memory_page, recipe_pages, rule_pages
from pitstop.bot.config import config_schema
from pitstop.bot.report import report_schema
from pitstop.bot.settings import INPUTS, OUTPUTS
from pitstop.bot.stages.bundle import bundle_schema
from pitstop.bot.stages.command import HELP
from pitstop.bot.stages.request import request_schema
from pitstop.rules import engine

ROOT = Path(__file__).resolve().parent.parent


def generated() -> Iterator[tuple[Path, str]]:
    """Every generated file with its text."""
    schemas = ROOT / "bot" / "schemas"
    yield schemas / "report.schema.json", _json(report_schema())
    yield schemas / "config.schema.json", _json(config_schema())
    yield schemas / "request.schema.json", _json(request_schema())
    yield schemas / "bundle.schema.json", _json(bundle_schema())
    for name, text in rule_pages.site(engine.all_rules()):
        yield ROOT / "docs" / name, text
    yield ROOT / "docs" / "recipes.md", recipe_pages.all_pages()
    for name, parts in PARTS.items():
        page = ROOT / "docs" / name
        yield page, _with_parts(page.read_text(), parts)


def _json(data: typing.Any) -> str:
    return json.dumps(data, indent=2) + "\n"


def _with_parts(text: str, parts: dict[str, typing.Callable[[], str]]) -> str:
    """A page written by hand in which the text between two marks is generated."""
    for name, write in parts.items():
        start, end = f"<!-- {name}: generated -->\n", f"<!-- end {name} -->"
        head, _, rest = text.partition(start)
        _, mark, tail = rest.partition(end)
        if not mark:
            raise SystemExit(f"the marks of {name!r} are missing")
        text = f"{head}{start}\n{write()}\n{end}{tail}"
    return text


def keys() -> str:
    """A table of the configuration's keys."""
    rows = ["| key | default | meaning |", "| --- | --- | --- |"]
    rows += _rows(config_schema(), "")
    return "\n".join(rows) + "\n"


def _rows(schema: dict[str, typing.Any], prefix: str) -> Iterator[str]:
    definitions = config_schema()["$defs"]
    for name, about in schema["properties"].items():
        reference = about.get("$ref", "").removeprefix("#/$defs/")
        if reference:
            yield from _rows(definitions[reference], f"{prefix}{name}.")
            continue
        default = json.dumps(about.get("default")).replace("null", "not set")
        words = ", ".join(f"`{word}`" for word in about.get("enum", ()))
        text = about["description"] + (f" One of {words}." if words else "")
        yield f"| `{prefix}{name}` | `{default}` | {text} |"


def commands() -> str:
    """A table of the options of every command."""
    return "\n".join("\n".join(_command(parser)) for parser in _parsers(cli.parser()))


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = [a for a in parser._actions if not isinstance(a, argparse._SubParsersAction)]
    words = [str(action.metavar) for action in actions if not action.option_strings]
    yield f"### `{' '.join([parser.prog, *words])}`\n"
    if parser.description:
        yield f"{parser.description}\n"
    yield "| option | meaning |\n| --- | --- |"
    for action in actions:
        name = action.option_strings[-1] if action.option_strings else str(action.metavar)
        shown = (
            f"`{name} {action.metavar}`"
            if action.option_strings and action.metavar
            else f"`{name}`"
        )
        choices = ", ".join(f"`{choice}`" for choice in action.choices or ())
        yield f"| {shown} | {action.help}{f' ({choices})' if choices else ''} |"
    yield ""


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The commands that do something, depth first."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for group in groups:
        for child in group.choices.values():
            yield from _parsers(child)
    if not groups:
        yield parser


def inputs() -> str:
    """Tables of the action's inputs and outputs."""
    rows = ["| input | default | meaning |", "| --- | --- | --- |"]
    rows += [f"| `{i.name}` | {f'`{i.default}`' if i.default else ''} | {i.text} |" for i in INPUTS]
    rows += ["", "| output | meaning |", "| --- | --- |"]
    rows += [f"| `{name}` | {text} |" for name, text in OUTPUTS.items()]
    return "\n".join(rows) + "\n"


def options() -> str:
    """What may be written after `/optimize`, as its help tells it."""
    return HELP.partition("Behind `--`")[0].strip() + "\n"


PARTS: dict[str, dict[str, typing.Callable[[], str]]] = {
    "configuration.md": {"keys": keys},
    "commands.md": {"commands": commands},
    "workflow.md": {"inputs": inputs},
    "optimize-on-pull-requests.md": {"options": options},
    "memory.md": {
        "reported": memory_page.reported,
        "llama_factory": memory_page.llama_factory,
        "deepspeed": memory_page.deepspeed,
        "megatron": memory_page.megatron,
        "accelerate": memory_page.accelerate,
    },
}


if __name__ == "__main__":
    for path, text in generated():
        path.write_text(text)
