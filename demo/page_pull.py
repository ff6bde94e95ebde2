"""The three views of a pull request: conversation, checks, files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demo.hunks import FileDiff, Hunk, Line
from demo.markdown import render
from demo.markup import Html, joined, tag
from demo.pulls import Comparison
from demo.state import (
    Anchor,
    CheckRun,
    Comment,
    Issue,
    Pull,
    Repository,
    Review,
    Thread,
    User,
)

EXCERPT_LINES = 4
VERBS = {
    "APPROVED": "approved these changes",
    "CHANGES_REQUESTED": "requested changes",
    "COMMENTED": "reviewed",
    "DISMISSED": "reviewed; dismissed",
}
EMOJI = {"+1": "👍", "-1": "👎", "laugh": "😄", "confused": "😕", "heart": "❤️", "hooray": "🎉"}
EMOJI |= {"rocket": "🚀", "eyes": "👀"}
MARKS = {"success": "✓", "failure": "✗", "neutral": "■", "cancelled": "⊘", "skipped": "⊘"}


def conversation_view(
    repo: Repository,
    issue: Issue,
    pull: Pull,
    comparison: Comparison,
    checks: Sequence[CheckRun],
    now: float,
) -> Html:
    """Everything that was said, in the order it was said, and the checks below."""
    entries: list[tuple[float, Html]] = []
    for comment in issue.comments:
        entries.append((comment.created, _comment_box(comment, now)))
    for review in pull.reviews:
        if review.submitted is not None:
            threads = [t for t in pull.threads if t.comments[0].review == review.id]
            if review.body or threads:
                entries.append((review.submitted, _review(review, threads, now)))
    entries.sort(key=lambda entry: entry[0])
    opening = _box(issue.user, "opened this", render(issue.body or "*No description given.*"))
    commits = tag("ul", *(_commit(repo, sha) for sha in comparison.commits), class_="commits")
    return tag(
        "div",
        opening,
        commits,
        *(entry for _, entry in entries),
        _checks_box(checks, f"/{repo.full_name}/pull/{issue.number}"),
        class_="timeline",
    )


def _commit(repo: Repository, sha: str) -> Html:
    title = repo.git.commit_info(sha).message.split("\n")[0]
    address = f"/{repo.full_name}/commit/{sha}"
    return tag("li", "● ", title, " ", tag("a", tag("code", sha[:7]), href=address))


def disc(number: int) -> str:
    """The colour that stands for an account."""
    return f"hsl({number * 67 % 360} 45% 45%)"


def _who(user: User) -> Html:
    name = tag("strong", user.login.removesuffix("[bot]"))
    face = tag("span", user.login[:1].upper(), class_="face", style=f"background: {disc(user.id)}")
    badge = tag("span", "bot", class_="badge") if user.type == "Bot" else None
    return joined(face, name, " ", badge)


def _box(user: User, what: str, body: Html, *, anchor: str | None = None) -> Html:
    title = tag("div", _who(user), " ", tag("span", what, class_="dim"), class_="title")
    return tag("article", title, tag("div", body, class_="text"), class_="box", id=anchor)


def _comment_box(comment: Comment, now: float) -> Html:
    edited = ", edited" if comment.updated > comment.created else ""
    body = joined(render(comment.body), _reactions(comment))
    if comment.minimized:
        label = f"This comment was marked as {comment.minimized}."
        body = tag("details", tag("summary", label), body)
    what = f"commented {_ago(now - comment.created)}{edited}"
    return _box(comment.user, what, body, anchor=f"issuecomment-{comment.id}")


def _reactions(comment: Comment) -> Html | None:
    given = [reaction.content for reaction in comment.reactions]
    if not given:
        return None
    kinds = dict.fromkeys(given)
    shown = [tag("span", f"{EMOJI[kind]} {given.count(kind)}", class_="badge") for kind in kinds]
    return tag("p", *shown)


def _ago(seconds: float) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def _review(review: Review, threads: Iterable[Thread], now: float) -> Html:
    what = f"{VERBS.get(review.state, 'reviewed')} {_ago(now - (review.submitted or now))}"
    head = tag("p", _who(review.user), " ", tag("span", what, class_="dim"), class_="event")
    body = tag("article", tag("div", render(review.body), class_="text"), class_="box")
    return tag(
        "section",
        head,
        body if review.body else None,
        *(_thread_card(thread) for thread in threads),
        id=f"pullrequestreview-{review.id}",
    )


# Threads


def _thread_card(thread: Thread) -> Html:
    """A thread with the piece of code it is about."""
    anchor = thread.anchor
    line = anchor.line or anchor.original_line
    start = anchor.start_line or anchor.original_start_line
    where = anchor.path if line is None else f"{anchor.path}:{start}-{line}"
    if line is not None and start is None:
        where = f"{anchor.path}:{line}"
    labels = [tag("span", "Outdated", class_="badge")] if anchor.outdated else []
    if thread.resolved_by is not None:
        labels.append(tag("span", f"Resolved by {thread.resolved_by.login}", class_="badge"))
    title = joined(tag("code", where), *labels)
    body = joined(_excerpt(anchor), thread_box(thread))
    if thread.resolved_by is not None:
        return tag("details", tag("summary", title, class_="title"), body, class_="box")
    return tag("article", tag("div", title, class_="title"), body, class_="box")


def _excerpt(anchor: Anchor) -> Html | None:
    if anchor.subject == "file":
        return None
    lines = _numbered(anchor.diff_hunk)
    wanted = EXCERPT_LINES
    if anchor.original_start_line is not None and anchor.original_line is not None:
        wanted = max(wanted, anchor.original_line - anchor.original_start_line + 1)
    return tag("table", *(_row(line) for line in lines[-wanted:]), class_="diff")


def _numbered(hunk_text: str) -> list[Line]:
    """The lines of a comment's `diff_hunk` with their numbers."""
    header, *rest = hunk_text.split("\n")
    words = header.split(" ")
    old, new = (int(word[1:].split(",")[0]) for word in words[1:3])
    found: list[Line] = []
    for text in rest:
        kind, has_old, has_new = text[:1], text[:1] in " -", text[:1] in " +"
        found.append(
            Line(kind, old if has_old else None, new if has_new else None, text[1:], len(found))
        )
        old, new = old + has_old, new + has_new
    return found


def thread_box(thread: Thread) -> Html:
    """The comments of a thread, suggestions shown as the change they propose."""
    replaced = _replaced(thread.anchor)

    def fence(word: str, code: str) -> Html | None:
        return _suggestion(replaced, code) if word == "suggestion" else None

    shown = [
        tag(
            "div",
            tag("div", _who(comment.user), class_="author"),
            tag("div", render(comment.body, fence), class_="text"),
            _reactions(comment),
            id=f"discussion_r{comment.id}",
            class_="comment",
        )
        for comment in thread.comments
    ]
    return tag("div", *shown, class_="thread")


def _replaced(anchor: Anchor) -> list[str]:
    """The lines that a suggestion in this place replaces."""
    if anchor.subject == "file" or anchor.original_line is None:
        return []
    first = anchor.original_start_line or anchor.original_line
    return [
        line.text
        for line in _numbered(anchor.diff_hunk)
        if line.new is not None and first <= line.new <= anchor.original_line
    ]


def _suggestion(replaced: Sequence[str], code: str) -> Html:
    added = code.split("\n") if code else []
    lines = [Line("-", None, None, text, 0) for text in replaced]
    lines += [Line("+", None, None, text, 0) for text in added]
    rows = [
        tag("tr", tag("td", line.kind, class_="sign"), tag("td", line.text), class_=_kind(line))
        for line in lines
    ]
    title = tag("div", "Suggested change", class_="title")
    return tag("div", title, tag("table", *rows, class_="diff"), class_="suggestion")


# Files


def files_view(comparison: Comparison, pull: Pull) -> Html:
    """Every file's diff with the threads under their lines."""
    shown = []
    for file in comparison.files:
        threads = [
            thread
            for thread in pull.threads
            if thread.anchor.path == file.path and not thread.anchor.outdated
        ]
        shown.append(_file(file, threads))
    return joined(*shown)


def _file(file: FileDiff, threads: Sequence[Thread]) -> Html:
    name = f"{file.previous} → {file.path}" if file.previous else file.path
    counts = joined(
        tag("span", f"+{file.additions}", class_="plus"),
        " ",
        tag("span", f"−{file.deletions}", class_="minus"),
    )
    whole = [thread_box(thread) for thread in threads if thread.anchor.subject == "file"]
    if file.patch is None or file.binary:
        text = "Binary file not shown." if file.binary else f"File {file.status} without changes."
        body = tag("p", text, class_="text dim")
    else:
        rows = [row for hunk in file.hunks for row in _hunk_rows(hunk, threads)]
        body = tag("table", *rows, class_="diff")
    title = tag("div", tag("code", name), " ", counts, class_="title")
    return tag("article", title, *whole, body, class_="box file")


def _hunk_rows(hunk: Hunk, threads: Sequence[Thread]) -> list[Html]:
    cells = (tag("td", class_="number"), tag("td", class_="number"), tag("td", hunk.header))
    rows = [tag("tr", *cells, class_="hunk")]
    for line in hunk.lines:
        rows.append(_row(line))
        for thread in threads:
            anchor = thread.anchor
            number = line.new if anchor.side == "RIGHT" else line.old
            if anchor.subject == "line" and number is not None and number == anchor.line:
                rows.append(tag("tr", tag("td", thread_box(thread), colspan=3)))
    return rows


def _row(line: Line) -> Html:
    return tag(
        "tr",
        tag("td", line.old, class_="number"),
        tag("td", line.new, class_="number"),
        tag("td", tag("span", line.kind, class_="sign"), line.text),
        class_=_kind(line),
    )


def _kind(line: Line) -> str | None:
    return {"+": "added", "-": "removed"}.get(line.kind)


# Checks


def _mark(check: CheckRun) -> Html:
    word = check.conclusion or check.status
    return tag("span", MARKS.get(word, "●"), class_=f"mark {word}")


def _checks_box(checks: Sequence[CheckRun], home: str) -> Html | None:
    if not checks:
        return None
    rows = [
        tag(
            "li",
            _mark(check),
            " ",
            tag("strong", check.name),
            " ",
            tag("span", check.title or check.status, class_="dim"),
            " ",
            tag("a", "Details", href=f"{home}/checks#check-{check.id}"),
        )
        for check in checks
    ]
    title = tag("div", tag("strong", "Checks"), class_="title")
    return tag("article", title, tag("ul", *rows, class_="checks"), class_="box")


def checks_view(checks: Sequence[CheckRun], home: str) -> Html:
    """Every check run with its summary and annotations."""
    if not checks:
        return tag("p", "No checks have run.", class_="dim")
    return joined(*(_check(check, home) for check in checks))


def _check(check: CheckRun, home: str) -> Html:
    word = check.conclusion or check.status
    title = tag("div", _mark(check), " ", tag("strong", check.name), " ", word, class_="title")
    marks = [
        tag(
            "li",
            tag("span", mark["annotation_level"], class_=f"badge {mark['annotation_level']}"),
            " ",
            tag("a", f"{mark['path']}:{mark['start_line']}", href=f"{home}/files"),
            " ",
            tag("strong", mark.get("title")),
            tag("pre", mark["message"]),
        )
        for mark in check.annotations
    ]
    body = joined(
        tag("h2", check.title) if check.title else None,
        render(check.summary or ""),
        render(check.text or ""),
        tag("h3", f"Annotations ({len(marks)})") if marks else None,
        tag("ul", *marks, class_="annotations"),
    )
    inside = tag("div", body, class_="text")
    return tag("article", title, inside, class_="box", id=f"check-{check.id}")
