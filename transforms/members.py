"""Comma-separated members between brackets, spliced in place: the arguments of a call, the pairs
of a JSON object, of a YAML flow mapping, of an inline table. One layout logic for all of them.

A member keeps its own line, its comment and its spaces; a new one looks like its neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.finding import Span
from pitstop.rules.tree import SourceFile
from pitstop.transforms.patch import Edit


@dataclass(frozen=True, slots=True)
class Members:
    """What stands between two brackets.

    `inside` runs from just after the opening bracket to the closing one. `commas[i]` is the
    offset of the comma after member i, None for a last member without one. `marks` start a
    comment to the end of the line; where `//` is one, `/* */` is a comment too.
    """

    file: SourceFile
    inside: Span
    spans: tuple[Span, ...]
    commas: tuple[int | None, ...]
    marks: tuple[str, ...] = ("#",)

    @staticmethod
    def between(
        file: SourceFile, inside: Span, spans: tuple[Span, ...], marks: tuple[str, ...] = ("#",)
    ) -> Members:
        """Members whose gaps hold only blanks, comments and one comma, which is looked for."""
        ends = (*(s.start for s in spans[1:]), inside.end)
        commas = tuple(
            _comma(file.text, span.end, end, marks) for span, end in zip(spans, ends, strict=False)
        )
        return Members(file, inside, spans, commas, marks)

    def own_line(self, index: int) -> bool:
        """True when only blanks stand before the member on its line."""
        start = self.spans[index].start
        return not self.file.text[line_start(self.file, start) : start].strip()


def insert_member(members: Members, text: str, after: int | None = None) -> tuple[Edit, ...]:
    """Edits that add `text` behind member `after` (the last one unless said otherwise)."""
    if not members.spans:
        return (_insert_first(members, text),)
    index = len(members.spans) - 1 if after is None else after
    span, comma = members.spans[index], members.commas[index]
    if not members.own_line(index):
        return (_insertion(members.file, span.end, f",{_gap(members)}{text}"),)
    file = members.file
    indent = file.text[line_start(file, span.start) : span.start]
    line = newline(file, span.start) + indent + text
    if comma is None:
        end = line_end(file, span.end)
        rest = file.text[span.end : end].strip()
        if not _only_comment(rest, members.marks) or span.end == end:
            return (_insertion(file, span.end, "," + line),)
        return (_insertion(file, span.end, ","), _insertion(file, end, line))
    end = line_end(file, comma)
    if _only_comment(file.text[comma + 1 : end], members.marks):
        return (_insertion(file, end, line + ","),)
    return (_insertion(file, span.end, f",{_gap(members)}{text}"),)


def remove_member(members: Members, index: int) -> tuple[Edit, ...]:
    """Edits that take member `index` out, with its comma and the comment on its own line."""
    file, span, comma = members.file, members.spans[index], members.commas[index]
    last = index == len(members.spans) - 1
    before = members.commas[index - 1] if index else None
    end = line_end(file, span.end if comma is None else comma)
    tail = file.text[(span.end if comma is None else comma + 1) : end]
    if members.own_line(index) and _only_comment(tail, members.marks):
        start = line_start(file, span.start)
        edits = [_deletion(file, start, _after_newline(file, end))]
        if last and comma is None and before is not None:
            edits.insert(0, _deletion(file, before, before + 1))
        return tuple(edits)
    if not last:
        until = members.spans[index + 1].start
        gap = file.text[span.end : until]
        if gap.strip() == "," and "\n" not in gap and "\r" not in gap:
            return (_deletion(file, span.start, until),)
        if comma is not None and before is not None and _blank(file, before + 1, span.start):
            return (_deletion(file, before, comma),)
        return (_deletion(file, span.start, (comma or span.end) + 1),)
    return _remove_last(members, index, before)


def _remove_last(members: Members, index: int, before: int | None) -> tuple[Edit, ...]:
    file, span, comma = members.file, members.spans[index], members.commas[index]
    if before is None:
        inside = members.inside
        outer = file.text[inside.start : span.start] + file.text[span.end : inside.end]
        if not outer.strip(" \t\r\n,"):
            return (_deletion(file, inside.start, inside.end),)
        return (_deletion(file, span.start, span.end if comma is None else comma + 1),)
    if file.text[before + 1 : span.start].strip():  # a comment stands between: it stays
        removed = _deletion(file, span.start, span.end if comma is None else comma + 1)
        return (removed,) if comma is not None else (_deletion(file, before, before + 1), removed)
    return (_deletion(file, before, span.end),)


def _insert_first(members: Members, text: str) -> Edit:
    file, inside = members.file, members.inside
    gap = file.text[inside.start : inside.end]
    if "\n" not in gap and "\r" not in gap:
        return Edit.replace(file, inside, text if not gap.strip() else gap + text)
    start = line_start(file, inside.end)
    closing = file.text[start : inside.end]
    step = "\t" if closing.startswith("\t") else indent_step(file)
    line = closing + step + text + newline(file, inside.start)
    return _insertion(file, start, line)


def _gap(members: Members) -> str:
    """What this list writes after a comma on one line."""
    for comma, following in zip(members.commas, members.spans[1:], strict=False):
        if comma is not None:
            gap = members.file.text[comma + 1 : following.start]
            if not gap.strip(" "):
                return gap
    return " "


def _comma(text: str, start: int, end: int, marks: tuple[str, ...]) -> int | None:
    at = start
    while at < end:
        if text[at] == ",":
            return at
        if text.startswith(marks, at):
            ends = [i for i in (text.find("\n", at, end), text.find("\r", at, end)) if i >= 0]
            at = min(ends, default=end)
        elif text.startswith("/*", at) and "//" in marks:
            at = max(text.find("*/", at, end), at) + 1
        at += 1
    return None


def _blank(file: SourceFile, start: int, end: int) -> bool:
    """Only blanks of one line."""
    return not file.text[start:end].strip(" \t")


def _only_comment(text: str, marks: tuple[str, ...]) -> bool:
    """Nothing, or one comment that runs to the end of the line."""
    text = text.strip()
    block = "//" in marks and text.startswith("/*") and text.find("*/") == len(text) - 2
    return not text or text.startswith(marks) or block


def _insertion(file: SourceFile, at: int, text: str) -> Edit:
    return Edit.replace(file, Span(at, at), text)


def _deletion(file: SourceFile, start: int, end: int) -> Edit:
    return Edit.replace(file, Span(start, end), "")


def line_start(file: SourceFile, offset: int) -> int:
    """Offset of the first character of the line, after a byte order mark."""
    start = file.line_starts[file.position(offset)[0] - 1]
    return start + 1 if start == 0 and file.text.startswith("\ufeff") else start


def line_end(file: SourceFile, offset: int) -> int:
    """Offset of the line's end mark, or of the end of the text."""
    line = file.position(offset)[0]
    return file.line_starts[line - 1] + len(file.line_text(line))


def _after_newline(file: SourceFile, end: int) -> int:
    line = file.position(end)[0]
    starts = file.line_starts
    return starts[line] if line < len(starts) else len(file.text)


def newline(file: SourceFile, offset: int) -> str:
    """The end mark of the line, else the file's commonest one."""
    end = line_end(file, offset)
    here = file.text[end : _after_newline(file, end)]
    if here:
        return here
    crlf = file.text.count("\r\n")
    return "\r\n" if crlf and crlf * 2 >= file.text.count("\n") else "\n"


def indent_step(file: SourceFile) -> str:
    """The first indent of the file that is deeper than its line before; four spaces if none."""
    before = ""
    for line in range(1, min(len(file.line_starts), 2000) + 1):
        text = file.line_text(line)
        if not text.strip():
            continue
        indent = text[: len(text) - len(text.lstrip(" \t"))]
        if len(indent) > len(before) and indent.startswith(before):
            return indent[len(before) :]
        before = indent
    return "    "
