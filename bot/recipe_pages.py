"""The page docs/recipes.md: every recipe and the table of code changes, from themselves."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.bot.markdown import code, fenced
from pitstop.transforms.patch import unified_diff
from pitstop.transforms.plans import tables
from pitstop.transforms.recipe import Example, Recipe, recipes
from pitstop.transforms.second_layer import CodeChange, second_layer

_HEAD = """\
# Recipes

A recipe rewrites Python code where one setting is not enough. It changes only a shape that it
understands exactly and says why it leaves another alone; the result is proved on the syntax tree,
and bytes outside the change stay. `pitstop fix PATH --select ID --unsafe` applies one by its name.

The class says what a change may do to the numbers: **exact** the same losses bit for bit,
**equivalent** the same mathematics rounded in another order, **precision** fewer bits,
**semantics** another training run. What needs the opt-in is only made when it is named.
This page is generated from the recipes.
"""


def all_pages() -> str:
    """The whole page."""
    pages = (_page(recipe) for recipe in recipes().values())
    return "\n".join([_HEAD, *_table(), *pages, *_second(), *_plans()])


def _plans() -> Iterator[str]:
    """What is tried beyond the fixes of findings, table by table."""
    yield "\n## Plans of settings\n"
    yield "`pitstop optimize` tries these, best first, where they apply; `pitstop fix PATH --unsafe"
    yield "--select ID` makes one. A row with the opt-in is only tried when it is named."
    for table in tables():
        rows = [row for row in table.rows if row.change not in recipes()]
        if not rows:
            continue
        yield f"\n### {table.title}\n"
        yield "| row | tier | what it does | class | opt-in | for | answers |"
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for row in rows:
            opt_in = "yes" if row.opt_in else ""
            cells = (f"`{row.id}`", row.tier, f"{row.title}. {row.why}", row.numerics.value, opt_in)
            yield f"| {' | '.join((*cells, ', '.join(row.answers), ', '.join(row.items)))} |"


def _table() -> Iterator[str]:
    yield "| recipe | what it does | class | fix | opt-in | answers |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for recipe in recipes().values():
        cells = (
            f"[`{recipe.id}`](#{recipe.id})",
            recipe.title,
            recipe.numerics.value,
            recipe.safety.value,
            "yes" if recipe.opt_in else "",
            ", ".join(recipe.answers),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _page(recipe: Recipe) -> str:
    parts = [f"## {recipe.id}", f"{recipe.title}.", recipe.text]
    needs: list[str] = [code(requirement) for requirement in recipe.requires]
    if recipe.capability is not None:
        needs.append("a GPU of compute capability " + ".".join(map(str, recipe.capability)))
    if needs:
        parts.append(f"Needs {', '.join(needs)}.")
    if recipe.arguments:
        given = (code(f"{name}={value!r}") for name, value in recipe.arguments.items())
        parts.append(f"Arguments, with their defaults: {', '.join(given)}.")
    parts += [_example(example) for example in recipe.examples]
    parts.append("Sources: " + ", ".join(f"<{source}>" for source in recipe.sources))
    return "\n\n".join(parts) + "\n"


def _example(example: Example) -> str:
    return fenced(unified_diff("train.py", example.before, example.after), "diff").rstrip("\n")


def _second() -> Iterator[str]:
    yield "## Changes of code beyond a framework's switches\n"
    yield "| change | where | verdict | class | opt-in | why | items |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    yield from (_row(row) for row in second_layer())
    yield ""


def _row(row: CodeChange) -> str:
    by = code(row.by) if row.verdict == "recipe" else row.by
    cells = (
        row.change,
        row.scope,
        f"{row.verdict.value}{f': {by}' if by else ''}",
        row.numerics.value,
        "yes" if row.opt_in else "",
        row.why,
        ", ".join(row.items),
    )
    return f"| {' | '.join(cells)} |"
