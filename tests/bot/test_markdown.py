"""Strangers' text, rendered by a Markdown parser, is still only text."""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pitstop.bot import markdown, render
from pitstop.bot.markdown import JOINER, Markdown, code, fenced, fit, prose, utf8_bytes, visible

PARSER = MarkdownIt("commonmark").enable("table")
NASTY = st.text(
    st.sampled_from("`*_[]()<>!#@|\\~$&-+=.:/ \t\n\r1aW\u202e\u2028\udc80\x1b😀中")
    | st.characters(),
    max_size=30,
)
POINTED = st.sampled_from(
    [
        "<!-- hidden --> <script>alert(1)</script> <b>",
        "@octocat and @org/team, a@b.example",
        "#12 owner/name#34 GH-56 gh-7",
        "https://evil.example www.evil.example ftp://x",
        "![x](https://evil.example/x.png) [y](z)",
        "``` `` ` ```` a``b",
        "| a | b |\\| \\\\| c |",
        "# heading", "- item", "1. item", "> quote", "    code", "---", "===", "***",
        "$x$ $$y$$ \\(z\\)",
        "-->", "</details>", "&amp; &#64;x",
        "a\u202eb", "a\x1b[31mb", "\udcff", "\u2028", "\ufeff",
    ]
)  # fmt: skip
TEXT = NASTY | POINTED


def inline(text: str) -> list[Token]:
    """The tokens of a text that must be one plain paragraph."""
    blocks = PARSER.parse(text)
    assert [block.type for block in blocks] == ["paragraph_open", "inline", "paragraph_close"]
    return blocks[1].children or []


def links_of_github(text: str) -> list[str]:
    """What GitHub would link by itself in rendered text."""
    found = re.findall(r"@\w|#\d|\bGH-\d|\w://|\bwww\.", text, re.IGNORECASE)
    assert isinstance(found, list)
    return found


@given(TEXT)
def test_visible_is_one_line_without_hidden_characters(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    kinds = {unicodedata.category(char) for char in shown if char not in "\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert visible(shown) == shown


@given(TEXT)
def test_code_shows_exactly_the_text(text: str) -> None:
    if not text.strip():
        return
    span = code(text)
    if "|" in text:
        assert html.unescape(PARSER.renderInline(span)) == f"<code>{visible(text)}</code>"
        return
    (token,) = inline(span)
    assert token.type == "code_inline"
    assert token.content.strip(" ") == visible(text).strip(" ")


@pytest.mark.parametrize("text", ["`", "``a", "a`", " a ", "`a`", "a``b`c"])
def test_code_keeps_back_ticks_and_spaces(text: str) -> None:
    (token,) = inline(code(text))
    assert token.content == text


@given(TEXT)
def test_prose_is_plain_words(text: str) -> None:
    shown = prose(text)
    if not shown:
        return
    tokens = inline(shown)
    assert {token.type for token in tokens} <= {"text", "code_inline"}
    words = "".join(token.content for token in tokens if token.type == "text")
    assert not links_of_github(words)


@given(NASTY.filter(lambda text: "`" not in text))
def test_prose_loses_nothing(text: str) -> None:
    tokens = inline(prose(text)) if prose(text) else []
    shown = "".join(token.content for token in tokens).replace(JOINER, "")
    expected = " ".join(visible(re.sub(r"\s+", " ", text)).split())
    # JOINER itself shows as an escape, so what is left are those that were put in.
    assert " ".join(shown.split()) == expected


def test_prose_keeps_its_own_code() -> None:
    tokens = inline(prose("set `num_workers=4` or `` a`b ``, not @x"))
    assert [t.content for t in tokens if t.type == "code_inline"] == ["num_workers=4", "a`b"]


@given(TEXT, TEXT)
def test_cells_stay_in_their_row(first: str, second: str) -> None:
    row = f"| x {code(first)} | y {prose(second)} |"
    tokens = PARSER.parse(f"| a | b |\n| --- | --- |\n{row}\n")
    kinds = [token.type for token in tokens]
    assert kinds.count("tr_open") == 2 and kinds.count("td_open") == 2
    assert kinds[-1] == "table_close"
    cells = [tokens[i + 1] for i, kind in enumerate(kinds) if kind == "td_open"]
    assert cells[0].content.startswith("x ") and cells[1].content.startswith("y")


@given(st.lists(TEXT, max_size=6))
def test_fence_holds_every_line(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    (token,) = PARSER.parse(f"{fenced(text, 'diff')}")
    assert token.type == "fence" and token.info == "diff"
    expected = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    shown = token.content.removesuffix("\n").split("\n")
    assert [visible(line) for line in expected] == [line.replace("\t", " ") for line in shown]


@given(TEXT)
def test_tag_text_opens_and_closes_nothing(text: str) -> None:
    for shown in (markdown.tag_text(text), markdown.tag_code(text)):
        inner = shown.removeprefix("<code>").removesuffix("</code>")
        assert "<" not in inner and ">" not in inner and "\n" not in inner
    assert html.unescape(markdown.tag_text(text)).replace(JOINER, "") == visible(text)


@given(TEXT)
def test_address_cannot_end_its_link(url: str) -> None:
    if not markdown.is_unicode(url):
        return
    tokens = inline(markdown.link(Markdown("x"), f"https://github.com/{url}"))
    assert [token.type for token in tokens] == ["link_open", "text", "link_close"]


@given(st.lists(TEXT, max_size=8), TEXT, st.integers(40, 200), st.booleans())
def test_fit_keeps_the_limit(sections: list[str], tail: str, limit: int, in_bytes: bool) -> None:
    measure = utf8_bytes if in_bytes else len
    tail = tail[:5]
    body = fit(sections, tail, limit=limit, cut_note="(cut)", measure=measure)
    assert measure(body) <= limit
    assert body.endswith(tail)
    whole = "".join(sections) + tail
    if measure(whole) <= limit:
        assert body == whole
    elif sections and measure(sections[0]) + measure(tail) + 5 <= limit:
        kept = body.removesuffix(f"(cut){tail}")
        assert any(kept == "".join(sections[:n]) for n in range(len(sections) + 1))


def test_characters_are_code_points_and_bytes_are_bytes() -> None:
    text = "中" * 30 + "😀" * 10
    assert len(fit([text], "", limit=40, cut_note="")) == 40
    cut = fit([text], "", limit=40, cut_note="", measure=utf8_bytes)
    assert cut == "中" * 13


def test_templates_escape_what_nobody_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    import jinja2

    loader = jinja2.DictLoader({"t": "{{ a }} {{ b }} {{ c }}{{ cut }}end"})
    monkeypatch.setattr(render._environment(), "loader", loader)
    values: dict[str, Any] = {"a": "<b>", "b": Markdown("<b>"), "c": 3}
    assert render.sections("t", **values) == ("\\<b\\> <b> 3", "end")
    with pytest.raises(TypeError):
        render.render("t", a=None, b="", c="")
    with pytest.raises(jinja2.UndefinedError):
        render.render("t", a="")
    render._environment().cache.clear()  # type: ignore[union-attr]
