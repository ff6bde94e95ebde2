"""A small reader of GitHub's Markdown, for the forge's pages: enough for a review bot's comments.

Headings, paragraphs, lists, task lists, tables, quotes and alerts, fenced code, rules, emphasis,
code, links, images, strike-through, and of HTML only details, summary and a few words of markup.
Everything else of HTML is shown as text; comments are dropped; addresses are http, https or local.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

from demo.chart import chart
from demo.markup import Html, joined, tag

# Called with the info word and the code of a fence; None leaves it to the reader.
Fence = Callable[[str, str], Html | None]

ALERTS = {"NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"}
INLINE_TAGS = "sub|sup|kbd|b|i|em|strong|code|br|ins|del"
DEEPEST = 20
FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})\s*([^\s`]*)[^`]*$")
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*$")
RULE = re.compile(r"^ {0,3}([-*_])(?:\s*\1){2,}\s*$")
ITEM = re.compile(r"^(\s*)([-*+]|\d{1,9}[.)])(\s+)(.*)$")
DELIMITER = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
BLOCK_TAG = re.compile(r"^\s*<(/?)(details|summary)(\s+open)?\s*>", re.IGNORECASE)
ENTITY = re.compile(r"&amp;([a-zA-Z]{2,20}|#\d{1,7}|#x[\da-fA-F]{1,6});")
TASK = re.compile(r"^\[([ xX])\]\s+(.*)$", re.DOTALL)
INLINE = re.compile(
    rf"""(?P<code>(?P<ticks>`+)(?P<inside>.{{1,2000}}?)(?<!`)(?P=ticks)(?!`))
    |(?P<escape>\\[!-/:-@\[-`{{-~])
    |(?P<image>!\[(?P<alt>[^\]\n]{{0,200}})\]\((?P<src>[^)\s]{{1,500}})\))
    |(?P<link>\[(?P<label>(?:[^\[\]\n]|\[[^\[\]\n]{{0,50}}\]){{0,300}})\]\((?P<href>[^)\s]{{1,500}})(?:\s+"[^"]{{0,200}}")?\))
    |(?P<auto><?(?P<url>https?://[^\s<>()]+[^\s<>().,:;!?'"])>?)
    |(?P<tag></?(?:{INLINE_TAGS})\s*/?>)
    |(?P<strong>\*\*(?P<bold>\S(?:.{{0,500}}?\S)?)\*\*)
    |(?P<emphasis>(?<![\w*])[*_](?P<slanted>[^\s*_](?:[^*_]{{0,500}}[^\s*_])?)[*_](?![\w*]))
    |(?P<strike>~~(?P<struck>.{{1,500}}?)~~)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def render(text: str, fence: Fence | None = None) -> Html:
    """The HTML of a comment."""
    plain = without_comments(text).replace("\r\n", "\n").expandtabs(4)
    return _Blocks(plain.split("\n"), fence).all()


def without_comments(text: str) -> str:
    """The text without `<!-- -->`; one that does not end hides nothing."""
    kept = []
    at = 0
    while (start := text.find("<!--", at)) >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            break
        kept.append(text[at:start])
        at = end + 3
    return "".join(kept) + text[at:]


class _Blocks:
    def __init__(self, lines: list[str], fence: Fence | None, depth: int = 0) -> None:
        self.lines = lines
        self.fence = fence
        self.depth = depth
        self.at = 0

    def all(self) -> Html:
        found = []
        while self.at < len(self.lines):
            if not self.lines[self.at].strip():
                self.at += 1
                continue
            found.append(self._block())
        return joined(*found)

    def _block(self) -> Html:
        line = self.lines[self.at]
        if FENCE.match(line):
            return self._code()
        if match := HEADING.match(line):
            self.at += 1
            return tag(f"h{len(match[1])}", inline(match[2]))
        if RULE.match(line):
            self.at += 1
            return tag("hr")
        if self.depth > DEEPEST:
            self.at = len(self.lines)
            return tag("p", "\n".join(self.lines))
        if line.lstrip().startswith(">"):
            return self._quote()
        if match := BLOCK_TAG.match(line):
            return self._details(match)
        if ITEM.match(line):
            return self._list()
        if "|" in line and self.at + 1 < len(self.lines) and self._is_table():
            return self._table()
        return self._paragraph()

    def _nested(self, lines: list[str]) -> Html:
        return _Blocks(lines, self.fence, self.depth + 1).all()

    def _code(self) -> Html:
        match = FENCE.match(self.lines[self.at])
        assert match is not None
        indent, marks, word = len(match[1]), match[2], match[3]
        self.at += 1
        code = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            bare = line.strip()
            if set(bare) == {marks[0]} and len(bare) >= len(marks):
                break
            code.append(line[min(indent, len(line) - len(line.lstrip())) :])
        special = self.fence(word, "\n".join(code)) if self.fence else None
        if special is not None:
            return special
        if word == "mermaid" and (picture := chart("\n".join(code))) is not None:
            return picture
        if word == "diff":
            return tag("pre", *(_diff_line(line) for line in code), class_="code")
        return tag("pre", tag("code", "\n".join(code)), class_="code")

    def _quote(self) -> Html:
        inside = []
        while self.at < len(self.lines) and self.lines[self.at].lstrip().startswith(">"):
            inside.append(self.lines[self.at].lstrip()[1:].removeprefix(" "))
            self.at += 1
        match = re.fullmatch(r"\[!(\w+)\]\s*", inside[0])
        if match and match[1] in ALERTS:
            title = tag("p", match[1].capitalize(), class_="alert-title")
            return tag(
                "div", title, self._nested(inside[1:]), class_=f"alert alert-{match[1].lower()}"
            )
        return tag("blockquote", self._nested(inside))

    def _details(self, first: re.Match[str]) -> Html:
        """`<details>` up to its end, with the summary and Markdown inside."""
        if first[1] or first[2].lower() != "details":
            text = self.lines[self.at]
            self.at += 1
            return tag("p", text)
        depth, start = 0, self.at
        while self.at < len(self.lines):
            line = self.lines[self.at].lower()
            depth += line.count("<details") - line.count("</details>")
            self.at += 1
            if depth <= 0:
                break
        text = "\n".join(self.lines[start : self.at])
        text = re.sub(r"^\s*<details(\s+open)?\s*>", "", text, count=1, flags=re.IGNORECASE)
        text = re.sub(r"</details>\s*$", "", text, count=1, flags=re.IGNORECASE)
        match = re.match(r"\s*<summary>(.*?)</summary>", text, re.IGNORECASE | re.DOTALL)
        summary = tag("summary", inline(match[1].strip()) if match else "Details")
        rest = text[match.end() :] if match else text
        return tag("details", summary, self._nested(rest.split("\n")), open=bool(first[3]))

    def _list(self) -> Html:
        first = ITEM.match(self.lines[self.at])
        assert first is not None
        ordered, margin = first[2][0].isdigit(), len(first[1])
        items = []
        while self.at < len(self.lines):
            match = ITEM.match(self.lines[self.at])
            if not match or len(match[1]) != margin or match[2][0].isdigit() != ordered:
                break
            items.append(self._item(match, margin))
        return tag("ol" if ordered else "ul", *items)

    def _item(self, match: re.Match[str], margin: int) -> Html:
        inside = [match[4]]
        depth = margin + len(match[2]) + len(match[3])
        self.at += 1
        while self.at < len(self.lines):
            line = self.lines[self.at]
            indent = len(line) - len(line.lstrip())
            following = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
            goes_on = indent > margin or (not line.strip() and following.startswith(" " * depth))
            if line.strip() and indent <= margin:
                break
            if not goes_on:
                break
            inside.append(line[min(depth, indent) :])
            self.at += 1
        if task := TASK.match(inside[0]):
            done = task[1] != " "
            box = tag("input", type="checkbox", disabled=True, checked=done)
            return tag("li", box, " ", inline(task[2]), self._nested(inside[1:]), class_="task")
        if len(inside) == 1:
            return tag("li", inline(inside[0]))
        return tag("li", self._nested(inside))

    def _is_table(self) -> bool:
        below = self.lines[self.at + 1]
        return "-" in below and DELIMITER.match(below) is not None

    def _table(self) -> Html:
        heads, marks = _cells(self.lines[self.at]), _cells(self.lines[self.at + 1])
        sides = [_side(mark) for mark in marks]
        self.at += 2
        rows = []
        while self.at < len(self.lines) and "|" in self.lines[self.at]:
            cells = _cells(self.lines[self.at])
            rows.append(tag("tr", *(_cell("td", c, s) for c, s in zip(cells, sides, strict=False))))
            self.at += 1
        head = tag("tr", *(_cell("th", c, s) for c, s in zip(heads, sides, strict=False)))
        return tag("table", tag("thead", head), tag("tbody", *rows))

    def _paragraph(self) -> Html:
        lines: list[str] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip() or (lines and self._interrupts(line)):
                break
            lines.append(line.strip())
            self.at += 1
        return tag("p", inline("\n".join(lines)))

    def _interrupts(self, line: str) -> bool:
        starts = (FENCE, HEADING, RULE, BLOCK_TAG)
        return any(start.match(line) for start in starts) or line.lstrip().startswith((">", "- "))


def inline(text: str) -> Html:
    """Text with emphasis, code and links."""
    found = []
    at = 0
    for match in INLINE.finditer(text):
        found.append(_plain(text[at : match.start()]))
        found.append(_word(match))
        at = match.end()
    found.append(_plain(text[at:]))
    return joined(*found)


def _word(match: re.Match[str]) -> Html:
    if match["code"]:
        return tag("code", match["inside"].strip())
    if match["escape"]:
        return Html(escape(match["escape"][1]))
    if match["image"]:
        return _image(match["src"], match["alt"])
    if match["link"]:
        return _link(match["href"], inline(match["label"]))
    if match["auto"]:
        return _link(match["url"], Html(escape(match["url"])))
    if match["tag"]:
        return Html(match["tag"].lower())
    if match["strong"]:
        return tag("strong", inline(match["bold"]))
    if match["emphasis"]:
        return tag("em", inline(match["slanted"]))
    return tag("del", inline(match["struck"]))


def _plain(text: str) -> Html:
    escaped = escape(text, quote=False).replace("\n", "<br>")
    return Html(ENTITY.sub(r"&\1;", escaped))


def _link(address: str, label: Html) -> Html:
    return tag("a", label, href=address, rel="nofollow") if _is_safe(address) else label


def _image(address: str, text: str) -> Html:
    return tag("img", src=address, alt=text) if _is_safe(address) else Html(escape(text))


def _is_safe(address: str) -> bool:
    return re.match(r"(https?://|/(?!/)|#|[\w.][\w./-]*$)", address, re.IGNORECASE) is not None


def _cells(line: str) -> list[str]:
    bare = line.strip().removeprefix("|")
    if bare.endswith("|") and not bare.endswith("\\|"):
        bare = bare[:-1]
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", bare)]


def _side(mark: str) -> str | None:
    if mark.endswith(":"):
        return "center" if mark.startswith(":") else "right"
    return None


def _cell(name: str, text: str, side: str | None) -> Html:
    return tag(name, inline(text), style=f"text-align: {side}" if side else None)


def _diff_line(line: str) -> Html:
    kind = {"+": "added", "-": "removed", "@": "hunk"}.get(line[:1])
    return tag("span", line + "\n", class_=kind)
