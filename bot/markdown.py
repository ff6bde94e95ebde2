"""Text from a repository as Markdown that shows exactly that text and does nothing else.

File names, values and comments are written by strangers. Here they lose every power that
GitHub's Markdown would give them: HTML, links, mentions, issue references, maths, and
characters that hide or reorder what is read. `Markdown` marks text that has been through here
(or is ours); templates escape everything else by themselves.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from urllib.parse import quote

JOINER = "\u2060"
"""WORD JOINER, which shows nothing: between the sign and the word it undoes an autolink.
A backslash would not, since GitHub links mentions after Markdown has become HTML."""

Measure = Callable[[str], int]

CODE_POINTS: Measure = len
"""How GitHub counts comment and review bodies (github.com/dead-claudia/github-limits)."""


def utf8_bytes(text: str) -> int:
    """How GitHub counts a check run's summary and a job's summary (github/docs#35252)."""
    return len(text.encode("utf-8", "surrogatepass"))


def is_unicode(text: str) -> bool:
    """False for text with undecodable bytes in it, which no JSON can carry."""
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in text)


class Markdown(str):
    """Text that may stand in a document as it is."""

    __slots__ = ()


_AUTOLINKS = re.compile(
    r"(?P<sign>@(?=\w)|\#(?=\d)|\bGH(?=-\d)|\w:(?=//)|\bwww(?=\.))", re.IGNORECASE
)
_SYNTAX = re.compile(r"([\\`*_\[\]<>&~|$])")
_LINE_START = re.compile(r"^(\s*)(?:([#+=-])|(\d{1,9})([.)])(?=\s|$))")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def visible(text: str) -> str:
    """One line in which every control, format or undecodable character shows as an escape.

    A tab becomes a space; joiners that emoji are made with stay.
    """
    return "".join(_visible(char) for char in text)


def _visible(char: str) -> str:
    if char == "\t":
        return " "
    if char in "\u200c\u200d" or unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept as a surrogate
        return f"\\x{code - 0xDC00:02x}"
    names = {"\n": "\\n", "\r": "\\r"}
    return names.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _inert(text: str) -> str:
    """No mention, reference or bare address is linked any more."""
    return _AUTOLINKS.sub(lambda match: match["sign"] + JOINER, text)


def plain(text: object) -> str:
    """Words for where Markdown is not read, such as a commit's message: one line, in which no
    mention, reference or address is linked."""
    return _inert(" ".join(visible(re.sub(r"\s+", " ", str(text))).split()))


def code(text: object) -> Markdown:
    """An inline code span of exactly this text; also safe inside a table's cell."""
    shown = visible(str(text))
    if not shown.strip():
        return Markdown("*(empty)*" if not shown else "*(blank)*")
    if "|" in shown:
        # A table splits its row before it looks for code spans, and disagrees with itself on
        # `\|` after another backslash; character references are read after the split.
        return Markdown(f"<code>{_references(shown)}</code>")
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return Markdown(f"{fence}{pad}{shown}{pad}{fence}")


def _references(text: str) -> str:
    return "".join(
        c if c.isalnum() or c in " ./" or ord(c) > 0x7F else f"&#{ord(c)};" for c in text
    )


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def prose(text: object) -> Markdown:
    """A sentence as plain words; only its own `code spans` stay code. One line."""
    shown = " ".join(visible(re.sub(r"\s+", " ", str(text))).split())
    parts: list[str] = []
    at = 0
    for span in _CODE_SPAN.finditer(shown):
        parts += (_words(shown[at : span.start()]), code(span[2].strip()))
        at = span.end()
    parts.append(_words(shown[at:]))
    return Markdown(_LINE_START.sub(_no_block, "".join(parts), count=1))


def _words(text: str) -> str:
    return _inert(_SYNTAX.sub(r"\\\1", text))


def _no_block(match: re.Match[str]) -> str:
    """A paragraph that begins like a heading, list or rule stays a paragraph."""
    if match[2]:
        return f"{match[1]}\\{match[2]}"
    return f"{match[1]}{match[3]}\\{match[4]}"


def tag_text(text: object) -> Markdown:
    """Words inside an HTML tag of ours, such as `<summary>`. One line."""
    return Markdown(_inert(html.escape(visible(str(text)))))


def tag_code(text: object) -> Markdown:
    """Code inside an HTML tag of ours."""
    return Markdown(f"<code>{_references(visible(str(text)))}</code>")


def fenced(text: str, language: str = "") -> Markdown:
    """A code block of exactly these lines, its fence longer than any inside.

    Ends with a line break. Characters that hide or reorder text show as escapes.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    shown = ["".join(c if c == "\t" else _visible(c) for c in line) for line in lines]
    fence = "`" * max(3, max(map(_longest_run, shown), default=0) + 1)
    body = "".join(f"{line}\n" for line in shown)
    return Markdown(f"{fence}{language}\n{body}{fence}\n")


def address(url: str) -> Markdown:
    """A link's address; what could end it or the link is percent-encoded."""
    return Markdown(quote(url, safe=":/?#=&%@+,;~"))


def link(label: Markdown, url: str) -> Markdown:
    """A link with this label."""
    return Markdown(f"[{label}]({address(url)})")


def fit(
    sections: Sequence[str],
    tail: str,
    *,
    limit: int,
    cut_note: str,
    measure: Measure = CODE_POINTS,
) -> str:
    """As many whole sections from the front as fit before `tail`.

    When some do not fit, `cut_note` stands in their place. Only a first section that alone is
    too long is cut inside. The result never measures more than `limit`.
    """
    whole = "".join(sections)
    if measure(whole) + measure(tail) <= limit:
        return whole + tail
    room = limit - measure(tail) - measure(cut_note)
    kept: list[str] = []
    for section in sections:
        room -= measure(section)
        if room < 0:
            break
        kept.append(section)
    if not kept and sections:
        kept.append(shorten(sections[0], room + measure(sections[0]), measure))
    return "".join(kept) + cut_note + tail


def shorten(text: str, room: int, measure: Measure) -> str:
    """The longest front part of a text that measures no more than `room`."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= room else (low, middle - 1)
    return text[:low]
