"""What a pull request compares, where comments may stand on it, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from demo.gitrepo import EMPTY_TREE
from demo.hunks import FileDiff, Place, Side, follow_line, read_diff
from demo.state import Anchor, Issue, Pull, Repository, Thread, User, World
from demo.wire import Refusal

MISSING_LINE = "Line could not be resolved"
MISSING_PATH = "Path could not be resolved"
WRONG_ORDER = "Pull request review thread start line must precede the end line."
WRONG_START = "Pull request review thread start line must be part of the diff"
OTHER_HUNK = "Pull request review thread start line must be part of the same hunk as the line."
LONE_START_SIDE = "Pull request review thread start line can't be blank"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `head` brings over the merge base: files, and commits oldest first."""

    merge_base: str
    head: str
    files: tuple[FileDiff, ...]
    commits: tuple[str, ...]

    def file(self, path: str) -> FileDiff | None:
        """The changes to a file, by its present name."""
        return next((file for file in self.files if file.path == path), None)


def compare(repo: Repository, base: str, head: str) -> Comparison:
    """A three-dot comparison of two commits of this repository."""
    ancestor = repo.git.merge_base(base, head) or EMPTY_TREE
    files = tuple(read_diff(repo.git.diff_text(ancestor, head)))
    commits = repo.git.history(head, f"^{base}") if base != head else []
    return Comparison(ancestor, head, files, tuple(reversed(commits)))


def compare_pull(repo: Repository, pull: Pull, head: str | None = None) -> Comparison:
    """The pull request's comparison, at an earlier head when one is given. A merged pull request
    is compared with what its base was before."""
    return compare(repo, pull.base_sha, head or pull.head_sha)


def open_pull(
    world: World,
    repo: Repository,
    user: User,
    *,
    title: str,
    body: str | None,
    base: str,
    head: str,
    head_repo: Repository,
    draft: bool = False,
) -> Issue:
    """A new pull request between two branches that exist."""
    head_sha, base_sha = head_repo.git.branch(head), repo.git.branch(base)
    if head_sha is None or base_sha is None:
        raise ValueError(f"no branch {head if head_sha is None else base}")
    pull = Pull(head_repo, head, head_sha, base, base_sha, head_repo.owner, draft)
    issue = new_issue(world, repo, user, title, body)
    issue.pull = pull
    if head_repo is not repo:
        repo.git.fetch(head_repo.git, head_sha)
    repo.git.point(f"refs/pull/{issue.number}/head", head_sha)
    return issue


def new_issue(world: World, repo: Repository, user: User, title: str, body: str | None) -> Issue:
    """A new issue with the next number."""
    now = world.now()
    number = len(repo.issues) + 1
    issue = Issue(world.next_id(), number, title, body, user, now, now)
    repo.issues[number] = issue
    return issue


def follow_branches(world: World) -> list[tuple[Repository, Issue, str]]:
    """Take note of moved branches. Returns the pull requests whose head moved, with the head
    they had before."""
    moved = []
    for repo in world.repositories.values():
        for issue, pull in repo.pulls():
            if issue.state != "open":
                continue
            pull.base_sha = repo.git.branch(pull.base_ref) or pull.base_sha
            tip = pull.head_repo.git.branch(pull.head_ref) if pull.head_repo else None
            if tip is None or tip == pull.head_sha or pull.head_repo is None:
                continue
            before = pull.head_sha
            repo.git.fetch(pull.head_repo.git, tip)
            repo.git.point(f"refs/pull/{issue.number}/head", tip)
            pull.head_sha = tip
            issue.updated = world.now()
            follow_threads(repo, pull, before)
            moved.append((repo, issue, before))
    return moved


def follow_threads(repo: Repository, pull: Pull, before: str) -> None:
    """Move every living thread to where its lines went, or mark it outdated."""
    now = compare_pull(repo, pull)
    then = compare_pull(repo, pull, before)
    for thread in pull.threads:
        if not thread.anchor.outdated:
            thread.anchor = _followed(repo, thread.anchor, then, now)


def _followed(repo: Repository, anchor: Anchor, then: Comparison, now: Comparison) -> Anchor:
    """The anchor at the new head. It lives on only where all its lines are unchanged and still
    part of the diff."""
    gone = replace(anchor, line=None, start_line=None, position=None, outdated=True)
    file = now.file(anchor.path)
    if anchor.subject == "file":
        return replace(anchor, commit=now.head) if file else gone
    if file is None or anchor.line is None:
        return gone
    ends = {"LEFT": (then.merge_base, now.merge_base), "RIGHT": (then.head, now.head)}

    def follow(line: int, side: Side) -> int | None:
        changes = read_diff(repo.git.diff_text(*ends[side], 0))
        mine = next((f for f in changes if (f.previous or f.path) == anchor.path), None)
        if mine is not None and mine.status == "removed":
            return None
        return follow_line(mine, line)

    lines = [follow(anchor.line, anchor.side)]
    if anchor.start_line is not None:
        if anchor.start_side == anchor.side:
            covered = range(anchor.start_line, anchor.line)
            lines = [follow(line, anchor.side) for line in covered] + lines
        else:
            lines = [follow(anchor.start_line, anchor.start_side or anchor.side), *lines]
    if None in lines:
        return gone
    end = lines[-1]
    place = file.place(end, anchor.side) if end is not None else None
    if place is None:
        return gone
    start = lines[0] if anchor.start_line is not None else None
    return replace(anchor, line=end, start_line=start, position=place.position, commit=now.head)


def anchors_for(
    repo: Repository, pull: Pull, commit: str, wishes: list[dict[str, Any]]
) -> list[Anchor]:
    """The anchors of comments on a commit of the pull request, as they stand at its head now.
    Raises Refusal (422)."""
    then = compare_pull(repo, pull, commit)
    anchors = [anchor_for(then, wish) for wish in wishes]
    if commit == pull.head_sha:
        return anchors
    now = compare_pull(repo, pull)
    return [_followed(repo, anchor, then, now) for anchor in anchors]


def anchor_for(comparison: Comparison, wish: dict[str, Any]) -> Anchor:
    """The anchor that a comment's `path`, `line`, `side`, `start_line`, `start_side`, `position`
    and `subject_type` describe. Raises Refusal (422, without saying which comment it was)."""
    file = comparison.file(wish["path"])
    if file is None:
        raise refused(MISSING_PATH)
    if wish.get("subject_type") == "file":
        return Anchor(file.path, comparison.head, subject="file", original_commit=comparison.head)
    line: int | None = wish.get("line")
    side: Side = wish.get("side") or "RIGHT"
    if line is None and wish.get("position") is not None:
        line, side = file.at_position(wish["position"]) or (None, side)
    place = file.place(line, side) if line is not None else None
    if place is None or line is None:
        raise refused(MISSING_LINE)
    start, start_side = _start(file, wish, line, side, place)
    return Anchor(
        file.path,
        comparison.head,
        subject="line",
        original_commit=comparison.head,
        side=side,
        line=line,
        start_side=start_side,
        start_line=start,
        position=place.position,
        diff_hunk=place.excerpt,
        original_line=line,
        original_start_line=start,
        original_position=place.position,
    )


def _start(
    file: FileDiff, wish: dict[str, Any], line: int, side: Side, end: Place
) -> tuple[int | None, Side | None]:
    start: int | None = wish.get("start_line")
    start_side: Side | None = wish.get("start_side")
    if start is None:
        if start_side is not None:
            raise refused(LONE_START_SIDE)
        return None, None
    start_side = start_side or side
    if start_side == side and start >= line:
        raise refused(WRONG_ORDER)
    place = file.place(start, start_side)
    if place is None:
        raise refused(WRONG_START)
    if place.hunk != end.hunk:
        raise refused(OTHER_HUNK)
    if place.position >= end.position:
        raise refused(WRONG_ORDER)
    return start, start_side


def refused(sentence: str) -> Refusal:
    """A 422 about a place; the operation words it its own way."""
    return Refusal(422, "Unprocessable Entity", errors=[sentence])


def thread_of(pull: Pull, comment_id: int) -> Thread | None:
    """The thread that holds a comment."""
    for thread in pull.threads:
        if any(comment.id == comment_id for comment in thread.comments):
            return thread
    return None
