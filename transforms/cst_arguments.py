"""A keyword in a call, laid out as its neighbours are."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

_SPACE = cst.SimpleWhitespace(" ")


def with_keyword(
    call: cst.Call, name: str, value: cst.BaseExpression, align: int | None = None
) -> cst.Call:
    """The call with `name=value`: in place where the keyword stands, else behind the others, and
    on a line of its own, `align` columns inside the block, where their line is full."""
    for index, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == name:
            changed = arg.with_changes(value=value)
            return call.with_changes(args=[*call.args[:index], changed, *call.args[index + 1 :]])
    new = cst.Arg(
        value=value,
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    if not call.args:
        return call.with_changes(args=[new])
    last, new = _joined(call, new, align)
    return call.with_changes(args=[*call.args[:-1], last, new])


def _joined(call: cst.Call, new: cst.Arg, align: int | None) -> tuple[cst.Arg, cst.Arg]:
    """The last argument and a new one behind it. What stood behind the last (a closing line, a
    trailing comma) then stands behind the new one; a comment stays where it was."""
    last = call.args[-1]
    between = _between(call)
    if align is not None:
        between = cst.ParenthesizedWhitespace(
            cst.TrailingWhitespace(), (), True, cst.SimpleWhitespace(" " * align)
        )
    if isinstance(last.comma, cst.Comma):
        end = last.comma.whitespace_after
        gap, end = _split(end, between)
        return (
            last.with_changes(comma=last.comma.with_changes(whitespace_after=gap)),
            new.with_changes(comma=cst.Comma(whitespace_after=end)),
        )
    gap, end = _split(last.whitespace_after_arg, between)
    return (
        last.with_changes(
            comma=cst.Comma(whitespace_after=gap), whitespace_after_arg=cst.SimpleWhitespace("")
        ),
        new.with_changes(whitespace_after_arg=end),
    )


def _between(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """What this call writes between two arguments, without comments."""
    gaps: Sequence[cst.BaseParenthesizableWhitespace] = [
        arg.comma.whitespace_after for arg in call.args[:-1] if isinstance(arg.comma, cst.Comma)
    ]
    gap = gaps[-1] if gaps else call.whitespace_before_args
    if not gaps and not isinstance(gap, cst.ParenthesizedWhitespace):
        return _SPACE
    return _bare(gap)


def _bare(gap: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(gap, cst.ParenthesizedWhitespace):
        return gap
    return gap.with_changes(
        first_line=cst.TrailingWhitespace(newline=gap.first_line.newline), empty_lines=()
    )


def _split(
    end: cst.BaseParenthesizableWhitespace, between: cst.BaseParenthesizableWhitespace
) -> tuple[cst.BaseParenthesizableWhitespace, cst.BaseParenthesizableWhitespace]:
    """What stands before the closing bracket, as the gap before a new argument (with the
    comments that were there) and what then closes."""
    if not isinstance(end, cst.ParenthesizedWhitespace):
        return between, end
    if not isinstance(between, cst.ParenthesizedWhitespace):
        between = end  # arguments on one line, the bracket on the next
        if end.first_line.comment is None and not end.empty_lines:
            return _SPACE, end
    gap = end.with_changes(indent=between.indent, last_line=between.last_line)
    return gap, _bare(end)
