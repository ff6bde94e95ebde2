"""Edits as data: a range of one file and its new text. Nothing is ever written out anew:
bytes outside an edit stay as they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pitstop.rules.finding import Span
from pitstop.rules.tree import RepoTree, SourceFile
from pitstop.transforms.one_place import apart, understood

MAX_COMPARED_LINES = 3_000
"""Beyond this, two texts are not compared line by line: a change becomes one edit."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """`path`'s characters `span` become `text`; `old` is what must stand there."""

    path: str
    span: Span
    old: str
    text: str

    @staticmethod
    def replace(file: SourceFile, span: Span, text: str) -> Edit:
        """An edit of a file as it was read."""
        return Edit(file.path, span, file.text[span.start : span.end], text)


@dataclass(frozen=True, slots=True)
class Patch:
    """Edits that belong together (one fix), and whole new files. `why` is one line."""

    edits: tuple[Edit, ...]
    why: str = ""
    new_files: tuple[tuple[str, str], ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that changes, sorted."""
        return tuple(sorted({e.path for e in self.edits} | {p for p, _ in self.new_files}))


@dataclass(frozen=True, slots=True)
class Changed:
    """The transform has something to do."""

    patch: Patch


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Everything is already as the transform wants it."""

    reason: str = "already so"


@dataclass(frozen=True, slots=True)
class Refused:
    """The transform does not understand this shape exactly, so it leaves it alone."""

    reason: str


Outcome = Changed | Unchanged | Refused


class StaleEditError(Exception):
    """The text under an edit is not what was read; the message names the file and line."""


def apply_edits(file: SourceFile, edits: Iterable[Edit]) -> str:
    """The file's text with its edits spliced in, in any order; equal edits count once, several
    insertions at one place stand in the order given.

    Raises StaleEditError when two edits overlap or the text beneath one has changed.
    """
    out: list[str] = []
    at = 0
    own = dict.fromkeys(e for e in edits if e.path == file.path)
    for edit in sorted(own, key=lambda e: e.span):
        line = file.position(min(edit.span.start, len(file.text)))[0]
        if edit.span.start < at:
            raise StaleEditError(f"{file.path}:{line}: two edits overlap")
        if file.text[edit.span.start : edit.span.end] != edit.old:
            raise StaleEditError(f"{file.path}:{line}: the file has changed since it was read")
        out += (file.text[at : edit.span.start], edit.text)
        at = edit.span.end
    out.append(file.text[at:])
    return "".join(out)


def apply_patches(
    tree: RepoTree, patches: Iterable[Patch]
) -> tuple[dict[str, str], tuple[tuple[Patch, str], ...]]:
    """New texts by path, and the patches left out with the reason (first come, first served).
    What several patches insert at one place stands there in their order, where it may."""
    taken: dict[str, list[Edit]] = {}
    created: dict[str, str] = {}
    dropped: list[tuple[Patch, str]] = []
    for patch in patches:
        reason = _clash(patch, taken, created, tree)
        if reason:
            dropped.append((patch, reason))
            continue
        created.update(patch.new_files)
        for edit in patch.edits:
            taken.setdefault(edit.path, []).append(edit)
    texts = {path: apply_edits(tree.read(path), edits) for path, edits in taken.items()}
    return {**texts, **created}, tuple(dropped)


def _clash(
    patch: Patch, taken: Mapping[str, list[Edit]], created: Mapping[str, str], tree: RepoTree
) -> str | None:
    for path, text in patch.new_files:
        if path in tree.paths:
            return f"{path} exists already"
        if created.get(path, text) != text:
            return f"{path} is already created with other content"
    shared: dict[str, None] = {}
    for edit in patch.edits:
        for other in taken.get(edit.path, ()):
            if other == edit:
                continue
            if edit.span == other.span and edit.span.start == edit.span.end:
                if not apart(other.text, edit.text):
                    return f"{edit.path}: inserts at the place of an earlier change"
                shared[edit.path] = None
            elif _overlap(edit.span, other.span):
                return f"{edit.path}: overlaps an earlier change"
    for path in shared:
        if not _together(tree.read(path), taken[path], patch.edits):
            return f"{path}: inserts at the place of an earlier change"
    return None


def _overlap(a: Span, b: Span) -> bool:
    """Touching is allowed."""
    return a == b or (a.start < b.end and b.start < a.end)


def _together(file: SourceFile, before: Sequence[Edit], more: Sequence[Edit]) -> bool:
    """Whether edits of several patches at one place leave a file that says what each says."""
    texts = (apply_edits(file, before), apply_edits(file, more))
    return understood(file, texts, apply_edits(file, [*before, *more]))


def edits_between(file: SourceFile, text: str) -> tuple[Edit, ...]:
    """The edits that turn a file into `text`, one for each run of changed lines, without what
    both have at its ends."""
    old, new = (t.splitlines(keepends=True) for t in (file.text, text))
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    starts = [sum(map(len, file.text.splitlines(keepends=True)[:head]))]
    for line in old:
        starts.append(starts[-1] + len(line))
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        return (_trimmed(file, Span(starts[0], starts[-1]), "".join(new)),)
    found: list[Edit] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            found.append(_trimmed(file, Span(starts[a], starts[b]), "".join(new[c:d])))
    return tuple(found)


def _trimmed(file: SourceFile, span: Span, text: str) -> Edit:
    old = file.text[span.start : span.end]
    head = _shared(old, text)
    tail = _shared(old[head:][::-1], text[head:][::-1])
    return Edit.replace(
        file, Span(span.start + head, span.end - tail), text[head : len(text) - tail]
    )


def _shared(a: Sequence[str], b: Sequence[str]) -> int:
    """How many characters or lines two texts have in common at their beginning."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def unified_diff(path: str, before: str, after: str, *, new: bool = False) -> str:
    """A diff as git prints it, "" when nothing differs; `new` for a file that is created."""
    lines = list(
        difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            "/dev/null" if new else f"a/{path}",
            f"b/{path}",
        )
    )
    out: list[str] = [f"diff --git a/{path} b/{path}\nnew file mode 100644\n"] if new else []
    for line in lines:
        out.append(line)
        if not line.endswith("\n"):
            out.append("\n\\ No newline at end of file\n")
    return "".join(out)
