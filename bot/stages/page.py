"""What is said about an optimization on GitHub. Everything from the run is shown as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pitstop.bot import markdown, render
from pitstop.bot.markdown import Markdown
from pitstop.bot.settings import Settings
from pitstop.bot.stages.bundle import ReadBundle, RunBundle
from pitstop.bot.stages.follow_up import BranchOnly, NotOpened, Opened
from pitstop.bot.stages.offered import Offer, kind_of
from pitstop.bot.stages.request import RunRequest

if TYPE_CHECKING:
    from pitstop.bot.stages.publish import Published

MAX_BODY = 60_000
_CUT = Markdown("\n*Cut here; the reports have everything.*\n\n")


def answer_page(
    settings: Settings, request: RunRequest, bundle: ReadBundle, published: Published
) -> Markdown:
    """The final text of the answer to the command."""
    where = published.where
    shown = not isinstance(where, Opened | BranchOnly)
    compare = f"{settings.server_url}/{settings.repository}/compare"
    base = markdown.address(request.head_ref)
    sections = render.sections(
        "answer.md.j2",
        pull_url=where.pull.url if isinstance(where, Opened) else "",
        pull_name=Markdown(f"#{where.pull.number}" if isinstance(where, Opened) else ""),
        compare_url=f"{compare}/{base}...{where.branch}?expand=1"
        if isinstance(where, BranchOnly)
        else "",
        why=Markdown(where.why) if isinstance(where, NotOpened) else "",
        patches=[
            (kind_of(offer.change.id).title, diff)
            for offer, diff in zip(published.offered, published.diffs, strict=True)
            if shown
        ],
        **_common(settings, request, bundle.data),
    )
    return _fitted(sections)


def pull_title(request: RunRequest, offered: Sequence[Offer]) -> str:
    """The follow-up's title, in our words alone."""
    count = "1 measured change" if len(offered) == 1 else f"{len(offered)} measured changes"
    return f"{count} for the training of #{request.number}"


def pull_page(
    settings: Settings,
    viewer: str,
    request: RunRequest,
    bundle: ReadBundle,
    offered: Sequence[Offer],
) -> Markdown:
    """The follow-up's body: the optimization summary."""
    sections = render.sections(
        "pull.md.j2",
        number=request.number,
        commenter=request.commenter,
        starts_no_ci=viewer.removesuffix("[bot]") == "github-actions",
        reproduce=f"pitstop optimize . -- {request.launch}",
        **_common(settings, request, bundle.data),
    )
    return _fitted(sections)


def _common(settings: Settings, request: RunRequest, data: RunBundle) -> dict[str, Any]:
    page = f"{settings.server_url}/{settings.repository}/commit/{request.sha}"
    return {
        "verdict": data.verdict,
        "rows": data.rows,
        "kept": data.kept,
        "new_command": data.new_command,
        "chart": chart(data),
        "dropped": data.dropped,
        "not_tried": data.not_tried,
        "not_verified": data.not_verified,
        "environment": data.environment,
        "commit": markdown.link(markdown.code(request.sha[:7]), page),
        "runs": data.runs,
        "minutes": f"{data.seconds / 60:.1f}",
        "quick": data.quick,
        "run_url": settings.run_url or "",
    }


def chart(data: RunBundle) -> Markdown:
    """The losses before and after as a Mermaid figure; nothing but numbers of ours in it."""
    before, after = data.losses
    if len(before) < 2 or len(after) < 2:
        return Markdown("")
    values = [value for value in (*before, *after) if math.isfinite(value)]
    room = (max(values) - min(values)) * 0.05 or 1e-6
    lines = [
        "```mermaid",
        "xychart-beta",
        f'  x-axis "step" 1 --> {max(len(before), len(after))}',
        f'  y-axis "loss" {min(values) - room:.6g} --> {max(values) + room:.6g}',
        f"  line [{', '.join(f'{value:.6g}' for value in before)}]",
        f"  line [{', '.join(f'{value:.6g}' for value in after)}]",
        "```",
    ]
    return Markdown("\n".join(lines))


def _fitted(sections: Sequence[str]) -> Markdown:
    *parts, tail = sections
    return Markdown(markdown.fit(parts, tail, limit=MAX_BODY, cut_note=_CUT))
