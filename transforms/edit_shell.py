"""Set, add and remove flags of a command by splicing the script's text.

A flag may stand in the command, in an array or in a string that the command expands; its value
may come from a variable. Several ways to write a change are tried in order of preference; the
first that reading the scripts again proves is taken.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pitstop.rules.finding import Location, Span
from pitstop.rules.job import Word
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms.edit_lists import list_additions, list_removals
from pitstop.transforms.members import line_end, line_start, newline
from pitstop.transforms.patch import Edit, Outcome, Refused, Unchanged
from pitstop.transforms.shell_claims import FlagChange, FlagRename, names
from pitstop.transforms.shell_proof import Commands, is_flag, proved

_SAFE = re.compile(r"[\w./:=+,@%-]+")
_TOKEN = re.compile(
    r"""(?: "(?:[^"\\]|\\.)*" | '[^'\n]*' | \$\{[^}\n]*\} | \$\([^)\n]*\) | \\[^\r\n]
    | [^\s"'\\;|&<>()] )+""",
    re.VERBOSE,
)
_GAP = re.compile(r"=|(?:[ \t]|\\\r?\n)+")
_ENDS_COMMAND = re.compile(r"[ \t]*(?:\d?[<>]|[|&;)#\"'])")
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Target:
    """A command whose flags are edited: where it stands, those of its words among which the
    flag lives (a launcher's own, or the program's), and the word before the first of them."""

    commands: Commands
    at: Location
    words: tuple[Word, ...]
    before: Location | None = None


def set_flag(
    target: Target, name: str, value: str | None, *, beside: Location | None = None
) -> Outcome:
    """Give the flag a value (None: the bare flag), where the last occurrence decides; a missing
    flag is added behind the flag at `beside`, else behind the last one."""
    index = _deciding(target.words, name)
    if index is None:
        return _first_proved(
            target, _additions(target, name, value, beside), FlagChange(name, value, "added")
        )
    flag, given = _flag_and_value(target.words, index, name)
    if value is None:
        return Unchanged() if given is None else Refused(f"{name} has the value {given.text}")
    if given is None:
        return _first_proved(
            target, _valued(target, flag, value), FlagChange(name, value, "changed")
        )
    if given.text == value and given.known:
        return Unchanged()
    if not given.known:
        return Refused(f"the value of {name} is not known: {given.why_unknown}")
    if not given.exact:
        return Refused(f"the value of {name} is put together from several places")
    return _first_proved(
        target, _replacements(target, flag, given, value), FlagChange(name, value, "changed")
    )


def rename_flag(target: Target, name: str, new: str, value: str | None) -> Outcome:
    """Write `new value` in place of a flag (None: bare): one spelling instead of another."""
    if _deciding(target.words, new) is not None:
        return Refused(f"{new} is already passed beside {name}")
    found = [i for i, word in enumerate(target.words) if names(word.text, name)]
    if len(found) != 1:
        return Refused(f"{name} is passed {len(found)} times")
    flag, given = _flag_and_value(target.words, found[0], name)
    file = _file(target, flag.location)
    if file is None or not (flag.exact and flag.known):
        return Refused(f"{name} is not written out")
    renamed = Edit.replace(file, flag.location.span, new)
    if value is None:
        return proved(target.commands, (renamed,), target.at, words=FlagRename(name, new, None))
    if given is None or not given.known:
        return Refused(f"the value of {name} is not known")
    ways: Iterable[tuple[Edit, ...]] = ((),)
    if given.text != value:
        ways = _replacements(target, flag, given, value)
    intent = FlagRename(name, new, value)
    return _first_proved(target, ((renamed, *way) for way in ways), intent)


def remove_flag(target: Target, name: str, *, bare: bool = False) -> Outcome:
    """Remove every occurrence of the flag, with its value unless it is `bare` (store_true)."""
    found = [i for i, word in enumerate(target.words) if names(word.text, name)]
    if not found:
        return Unchanged("not set")
    flags = [_flag_and_value(target.words, index, name) for index in found]
    ways = [_removals(target, flag, None if bare else given) for flag, given in flags]
    candidates = list(zip(*(way for way in ways if not isinstance(way, Refused)), strict=True))
    refused = next((way for way in ways if isinstance(way, Refused)), None)
    if len(found) == 1:
        given = flags[0][1]
        whole = target.words[found[0]]
        last = whole if bare or given is None or "=" in whole.text else given
        file = _file(target, whole.location)
        candidates = [] if refused else candidates
        candidates += list_removals(file, whole, last) if file else ()
        refused = None if candidates else refused
    intent = FlagChange(name, None, "bare" if bare else "removed")
    return refused or _first_proved(target, candidates, intent)


def quoted(value: str, file: SourceFile, at: Span) -> str:
    """The value as it can stand in place of the characters at `at`: what needs quotes gets
    them unless it stands in quotes already."""
    if _SAFE.fullmatch(value):
        return value
    before, after = file.text[at.start - 1 : at.start], file.text[at.end : at.end + 1]
    if before == after == "'" and "'" not in value:
        return value
    if before == after == '"':
        return re.sub(r'([\\"$`])', r"\\\1", value)
    return shlex.quote(value)


def _deciding(words: Sequence[Word], name: str) -> int | None:
    found = [i for i, word in enumerate(words) if names(word.text, name)]
    return found[-1] if found else None


def _flag_and_value(words: Sequence[Word], index: int, name: str) -> tuple[Word, Word | None]:
    word = words[index]
    if "=" in word.text:
        return word.partition("=") or (word, None)
    following = words[index + 1] if index + 1 < len(words) else None
    if following is None or (following.known and is_flag(following.text)):
        return word, None
    return word, following


# --- ways to write it -----------------------------------------------------------------------


def _replacements(
    target: Target, flag: Word, given: Word, value: str
) -> Iterator[tuple[Edit, ...]]:
    """First where the literal is written (it may be a variable's), then where it is used."""
    file = _file(target, given.location)
    if file:
        span = given.location.span
        yield (Edit.replace(file, span, quoted(value, file, span)),)
    file = _file(target, flag.location)
    token = _token_after(file, flag) if file else None
    if file and token:
        yield (Edit.replace(file, token, quoted(value, file, token)),)


def _valued(target: Target, flag: Word, value: str) -> Iterator[tuple[Edit, ...]]:
    """A bare flag gets a value."""
    file = _file(target, flag.location)
    if file and flag.exact:
        end = flag.location.span.end
        yield (Edit.replace(file, Span(end, end), f" {quoted(value, file, Span(end, end))}"),)


def _additions(
    target: Target, name: str, value: str | None, beside: Location | None
) -> Iterator[tuple[Edit, ...]]:
    anchors = list(_anchors(target))
    if beside is not None:
        anchors.sort(key=lambda a: a.start.location != beside or not _own_line(target, a))
    for anchor in anchors[:_TRIES]:
        file = _file(target, anchor.end.location)
        if file:
            equals = "=" if "=" in anchor.start.text and value is not None else " "
            at = Span(anchor.end.location.span.end, anchor.end.location.span.end)
            text = name if value is None else f"{name}{equals}{quoted(value, file, at)}"
            yield from _behind(file, anchor, text)
    yield from _list_additions(target, name, value)
    before = _last_before_flags(target)
    file = _file(target, before) if before else None
    if file and before:
        end = _past_quote(file, before.span)
        at = Span(end, end)
        text = name if value is None else f"{name} {quoted(value, file, at)}"
        yield (Edit.replace(file, at, f" {text}"),)


def _list_additions(target: Target, name: str, value: str | None) -> Iterator[tuple[Edit, ...]]:
    """For a command that is written as a list of words."""
    last = target.words[-1] if target.words else None
    file = _file(target, last.location) if last else None
    if last and file and last.exact and last.known:
        yield from list_additions(file, last, (name,) if value is None else (name, value))


def _last_before_flags(target: Target) -> Location | None:
    """The program, or the last of the plain words that follow it at once (`sft a.yaml`)."""
    at = target.before
    file = _file(target, at) if at else None
    for word in target.words:
        plain = word.known and word.exact and word.condition is None and not is_flag(word.text)
        if file is None or at is None or not plain or not _adjacent(file, at, word.location):
            break
        at = word.location
    return at


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A flag and the last word that belongs to it."""

    start: Word
    end: Word


def _anchors(target: Target) -> Iterator[_Anchor]:
    """Flags that are written out with all their values, the last one first."""
    groups: list[list[Word]] = []
    for word in target.words:
        if is_flag(word.text):
            groups.append([word])
        elif groups:
            groups[-1].append(word)
    for group in reversed(groups):
        file = _file(target, group[0].location)
        if file and all(w.exact and w.known and w.condition is None for w in group):
            gaps = itertools.pairwise(group)
            if all(_adjacent(file, a.location, b.location) for a, b in gaps):
                yield _Anchor(group[0], group[-1])


def _adjacent(file: SourceFile, a: Location, b: Location, between: str = "") -> bool:
    if a.path != b.path or a.span.end > b.span.start:
        return False
    return not file.text[a.span.end : b.span.start].strip(" \t\r\n\\\"'" + between)


def _behind(file: SourceFile, anchor: _Anchor, text: str) -> Iterator[tuple[Edit, ...]]:
    """The new flag on a line of its own where the anchor has one, else beside it."""
    inner = anchor.end.location.span.end
    outer = _past_quote(file, anchor.end.location.span)
    for end in dict.fromkeys((outer, inner)):
        yield from _lines_behind(file, anchor, end, text)
        yield (Edit.replace(file, Span(end, end), f" {text}"),)


def _own_line(target: Target, anchor: _Anchor) -> bool:
    """True when nothing but the flag and its values stands on the line."""
    file = _file(target, anchor.start.location)
    if file is None:
        return False
    start, end = anchor.start.location.span.start, anchor.end.location.span.end
    before = file.text[line_start(file, start) : start]
    rest = file.text[_past_quote(file, Span(start, end)) : line_end(file, end)]
    return not before.strip(" \t\"'") and bool(re.fullmatch(r"[\"' \t]*(\\|#.*)?", rest))


def _lines_behind(
    file: SourceFile, anchor: _Anchor, end: int, text: str
) -> Iterator[tuple[Edit, ...]]:
    start = line_start(file, anchor.start.location.span.start)
    indent = file.text[start : anchor.start.location.span.start]
    if indent.strip(" \t\"'") or start == 0 or file.text[end:].lstrip(" \t\"'")[:1] == "-":
        return
    indent = indent.rstrip("\"'")
    stop = line_end(file, end)
    rest = file.text[end:stop]
    mark = newline(file, end)
    continued = re.fullmatch(r"([ \t]*)\\", rest)
    if continued:
        yield (Edit.replace(file, Span(stop, stop), f"{mark}{indent}{text}{continued[1]}\\"),)
        return
    previous = _continued_before(file, start)
    if previous is not None:
        blank = previous[1] or " "
        yield (Edit.replace(file, Span(end, end), f"{blank}\\{mark}{indent}{text}"),)
    elif rest.lstrip().startswith("#"):
        yield (Edit.replace(file, Span(stop, stop), f"{mark}{indent}{text}"),)
    else:
        yield (Edit.replace(file, Span(end, end), f"{mark}{indent}{text}"),)


def _continued_before(file: SourceFile, start: int) -> tuple[int, str] | None:
    """Of the line before this one, when it is continued: where the blanks before its backslash
    begin, and the blanks."""
    line = file.position(start)[0] - 1
    text = file.line_text(line)
    if not text.endswith("\\"):
        return None
    kept = text[:-1].rstrip(" \t")
    return file.line_starts[line - 1] + len(kept), text[len(kept) : -1]


def _removals(target: Target, flag: Word, given: Word | None) -> list[Edit] | Refused:
    """Two ways to take one occurrence out, the tidier first."""
    file = _file(target, flag.location)
    if file is None or not (flag.exact and flag.known):
        return Refused(f"{flag.text} is not written out")
    start = flag.location.span.start
    end = _past_quote(file, flag.location.span)
    if end > flag.location.span.end:
        start -= 1
    if given is not None:
        token = _value_span(file, flag, given)
        if token is None:
            return Refused(f"the value of {flag.text} does not stand behind it")
        end = token.end
    span = Span(start, end)
    return [Edit.replace(file, s, "") for s in (_tidy(file, span), _with_blanks(file, span))]


def _tidy(file: SourceFile, span: Span) -> Span:
    """The range to delete so that neither an empty line nor a loose backslash stays."""
    text = file.text
    start, stop = line_start(file, span.start), line_end(file, span.end)
    rest = text[span.end : stop]
    if text[start : span.start].strip():
        return _with_blanks(file, span)
    previous = _continued_before(file, start)
    if previous and not rest.strip():
        return Span(previous[0], stop)
    if previous and _ENDS_COMMAND.match(rest) and not rest.endswith("\\"):
        return Span(previous[0], span.end)
    if not re.fullmatch(r"[ \t]*(\\|#.*)?", rest):
        joins = start > 0 and rest[:1] == ")"
        return Span(line_end(file, start - 1), span.end) if joins else _with_blanks(file, span)
    after = stop + (2 if text.startswith("\r\n", stop) else int(stop < len(text)))
    return Span(start, after)


def _with_blanks(file: SourceFile, span: Span) -> Span:
    """The words and the blanks before them, or behind them at the beginning of a line."""
    start, stop = line_start(file, span.start), line_end(file, span.end)
    before, rest = file.text[start : span.start], file.text[span.end : stop]
    if before.strip() and before[-1:] in (" ", "\t"):
        return Span(start + len(before.rstrip(" \t")), span.end)
    return Span(span.start, span.end + len(rest) - len(rest.lstrip(" \t")))


def _value_span(file: SourceFile, flag: Word, given: Word) -> Span | None:
    """Where the flag's value is written behind it, quotes included."""
    at = given.location
    if given.exact and _adjacent(file, flag.location, at, "="):
        return Span(at.span.start, _past_quote(file, at.span))
    return _token_after(file, flag)


def _token_after(file: SourceFile, flag: Word) -> Span | None:
    """The raw word that stands behind a flag, `=` or blanks between."""
    gap = _GAP.match(file.text, _past_quote(file, flag.location.span))
    token = _TOKEN.match(file.text, gap.end()) if gap else None
    return Span(token.start(), token.end()) if token else None


def _past_quote(file: SourceFile, span: Span) -> int:
    """The end of a word including the quote that closes around exactly it."""
    before, after = file.text[span.start - 1 : span.start], file.text[span.end : span.end + 1]
    return span.end + 1 if before == after and before in ("'", '"') else span.end


def _file(target: Target, at: Location) -> SourceFile | None:
    try:
        return target.commands.tree.read(at.path)
    except UnreadableError:
        return None


def _first_proved(
    target: Target, candidates: Iterable[tuple[Edit, ...]], words: FlagChange | FlagRename
) -> Outcome:
    outcome: Outcome = Refused(f"there is no place where {words.name} can be written")
    for edits in candidates:
        outcome = proved(target.commands, edits, target.at, words=words)
        if not isinstance(outcome, Refused):
            return outcome
    return outcome
