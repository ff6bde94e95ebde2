"""Estimates for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pitstop.bot.estimate import JobEstimate
from pitstop.bot.estimate_words import count_range, gib, gib_range, rounded
from pitstop.bot.text import printable

COLOURS = {"fits": "green", "may not fit": "yellow", "does not fit": "bold red"}


def show(out: Console, found: Sequence[JobEstimate]) -> None:
    """Print every estimate, the jobs that could not be estimated last."""
    for one in sorted(found, key=lambda one: bool(one.reasons)):
        out.print(Text(printable(one.job), "bold"), soft_wrap=True)
        if one.reasons:
            out.print(Text(f"  not estimated: {'; '.join(map(printable, one.reasons))}", "dim"))
        else:
            _show_one(out, one)
        out.print()


def _show_one(out: Console, one: JobEstimate) -> None:
    out.print(Text(f"  {_heading(one)}", "dim"))
    out.print(_parts(one))
    out.print(_verdict(one))
    for line in _facts(one):
        out.print(Text(f"  {printable(line)}"), soft_wrap=True)
    if one.choices:
        over = one.spare is not None and one.spare < 0
        title = "would fit, fastest first" if over else "could be faster and fits"
        out.print(Text(f"  {title}", "bold"))
        out.print(_choices(one))
    for line in one.advice:
        out.print(Text(f"  training less: {line}"), soft_wrap=True)
    if one.sweep:
        out.print(_sweep(one))
    for title, lines in (("taken as given", one.assumed), ("would narrow this", one.missing)):
        if lines:
            out.print(Text(f"  {title}: {printable('; '.join(lines))}", "dim"), soft_wrap=True)


def _heading(one: JobEstimate) -> str:
    count = f" ({one.parameters / 1e9:.3g} billion parameters)" if one.parameters else ""
    number = "" if one.gpus is None else f"{one.gpus} x "
    gpu = f", {number}{one.gpu or 'a GPU that is not known'}"
    return f"{printable(one.model)}{count}{gpu}".lstrip(" ,")


def _parts(one: JobEstimate) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim", pad_edge=True)
    table.add_column(f"{one.peak}")
    table.add_column("GiB per GPU", justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for part in one.parts:
        table.add_row(part.name, gib_range(part.size), part.how)
    if one.total:
        table.add_row(Text("together", "bold"), Text(gib_range(one.total), "bold"), "")
    return table


def _verdict(one: JobEstimate) -> Text:
    if one.capacity is None or one.spare is None:
        return Text("  the GPU is not known: give --gpu to learn whether it fits")
    spare = f"{gib(one.spare)} GiB to spare" if one.spare >= 0 else f"{gib(-one.spare)} GiB over"
    return Text.assemble(
        "  ",
        (one.verdict, COLOURS.get(one.verdict, "")),
        f" in {gib(one.capacity)} GiB: {spare} at the high end",
    )


def _facts(one: JobEstimate) -> Iterator[str]:
    if one.longest is not None:
        yield f"samples of up to {one.longest} tokens fit with these settings"
    if one.host:
        yield f"main memory for offloaded state: {gib(one.host)} GiB for each GPU"
    if one.tokens_per_step:
        pace = ""
        if one.tokens_per_second:
            pace = f"; at most {rounded(one.tokens_per_second)} tokens/s, {one.limited_by}-bound"
        yield f"{count_range(one.tokens_per_step)} tokens per step{pace}"


def _choices(one: JobEstimate) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim", pad_edge=True)
    table.add_column("change")
    table.add_column("GiB per GPU", justify="right", no_wrap=True)
    table.add_column("tokens/s at most", justify="right")
    for choice in one.choices:
        pace = rounded(choice.tokens_per_second) if choice.tokens_per_second else "?"
        table.add_row(" + ".join(choice.changes), gib_range(choice.memory), pace)
    return table


def _sweep(one: JobEstimate) -> Table:
    """Micro batch by sequence: the high end in GiB; what does not fit in brackets."""
    lengths = sorted({cell.sequence for cell in one.sweep})
    table = Table(box=None, padding=(0, 1, 0, 2), header_style="dim", pad_edge=True)
    table.add_column("micro batch", justify="right")
    for length in lengths:
        table.add_column(f"{length}", justify="right")
    for size in sorted({cell.micro_batch for cell in one.sweep}):
        cells = {c.sequence: c.memory.high for c in one.sweep if c.micro_batch == size}
        table.add_row(f"{size}", *(_cell(cells[length], one.capacity) for length in lengths))
    return table


def _cell(size: float, capacity: int | None) -> Text:
    if capacity is None:
        return Text(gib(size))
    return Text(gib(size), "green") if size <= capacity else Text(f"({gib(size)})", "red")
