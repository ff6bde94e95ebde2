"""The forge's pages: what they show, and that nothing in a comment can break out of its place."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo.forge import Forge
from demo.handles import ForgePull
from demo.markdown import render

LINES = "".join(f"line {number}\n" for number in range(1, 41))
VOID = {"br", "hr", "img", "input", "link", "meta"}
MEANT = {
    "a",
    "article",
    "b",
    "blockquote",
    "body",
    "br",
    "code",
    "del",
    "details",
    "div",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "i",
    "img",
    "input",
    "ins",
    "kbd",
    "li",
    "link",
    "main",
    "meta",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "span",
    "strong",
    "style",
    "sub",
    "summary",
    "sup",
    "svg",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "title",
    "tr",
    "ul",
}


class Reader(HTMLParser):
    """Collects elements, and sees that they are closed in order and are of the kinds meant."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in MEANT, tag
        assert not any(name.startswith("on") for name, _ in attrs)
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


@pytest.fixture
def pull(forge: Forge) -> ForgePull:
    repo = forge.create_repo({"a.txt": LINES, "b.bin": b"\0\1"})
    after = {"a.txt": LINES.replace("line 20\n", "<new> & 20\n"), "b.bin": b"\0\2"}
    return repo.open_pull(after, title="<b>Title</b>", body="Some *text*")


def show(ask: Any, forge: Forge, path: str) -> str:
    reply = ask("GET", forge.url + path, headers={"Accept": "text/html"})
    assert reply.status == 200, reply.body
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    return reply.body.decode()


def test_the_conversation_shows_what_was_said(forge: Forge, pull: ForgePull, ask: Any) -> None:
    suggestion = "Better:\n\n```suggestion\nnew 20\n```"
    comment = {"path": "a.txt", "line": 20, "body": suggestion}
    review = {"event": "COMMENT", "body": "**Three** things", "comments": [comment]}
    ask("POST", "/repos/octocat/train/pulls/1/reviews", review)
    pull.comment("a | b\n--|--\n1 | 2")
    html = show(ask, forge, "/octocat/train/pull/1")
    read(html)
    assert "&lt;b&gt;Title&lt;/b&gt;" in html and "<b>Title" not in html
    assert "<strong>Three</strong> things" in html
    assert "Suggested change" in html and "&lt;new&gt; &amp; 20" in html
    assert "<th>a</th>" in html and "a.txt:20" in html


def test_files_show_threads_under_their_lines(forge: Forge, pull: ForgePull, ask: Any) -> None:
    comment = {"path": "a.txt", "line": 21, "body": "under twenty-one"}
    ask("POST", "/repos/octocat/train/pulls/1/reviews", {"event": "COMMENT", "comments": [comment]})
    html = show(ask, forge, "/octocat/train/pull/1/files")
    read(html)
    rest = html[html.index("line 21</td>") :]
    assert rest.index("under twenty-one") < rest.index("line 22</td>")
    assert "Binary file not shown." in html


def test_checks_show_summary_and_annotations(forge: Forge, pull: ForgePull, ask: Any) -> None:
    mark = {"path": "a.txt", "start_line": 20, "end_line": 20, "annotation_level": "warning"}
    output = {"title": "T", "summary": "`s`", "annotations": [mark | {"message": "<slow>"}]}
    check = {"name": "Pitstop", "head_sha": pull.head, "conclusion": "neutral", "output": output}
    assert ask("POST", "/repos/octocat/train/check-runs", check).status == 201
    html = show(ask, forge, "/octocat/train/pull/1/checks")
    read(html)
    assert "<code>s</code>" in html and "&lt;slow&gt;" in html and "a.txt:20" in html


def test_resolved_and_outdated_threads_are_marked(forge: Forge, pull: ForgePull, ask: Any) -> None:
    comments = [{"path": "a.txt", "line": n, "body": f"on {n}"} for n in (19, 20)]
    ask("POST", "/repos/octocat/train/pulls/1/reviews", {"event": "COMMENT", "comments": comments})
    pull.threads()[0].resolved_by = forge.world.user("alice")
    pull.push({"a.txt": LINES.replace("line 20\n", "newer\n")})
    html = show(ask, forge, "/octocat/train/pull/1")
    assert "Resolved by alice" in html and "Outdated" in html


def test_the_other_pages(forge: Forge, pull: ForgePull, ask: Any) -> None:
    read(show(ask, forge, "/"))
    assert "#1 &lt;b&gt;Title" in show(ask, forge, "/octocat/train")
    assert "line 7" in show(ask, forge, "/octocat/train/blob/main/a.txt")
    plain = {"Accept": "text/html"}
    raw = ask("GET", f"{forge.url}/octocat/train/raw/main/a.txt", headers=plain)
    assert raw.body.decode() == LINES
    diff = ask("GET", f"{forge.url}/octocat/train/pull/1.diff", headers=plain).body.decode()
    assert diff.startswith("diff --git a/a.txt b/a.txt")
    assert ask("GET", f"{forge.url}/octocat/none", headers=plain).status == 404
    assert ask("GET", f"{forge.url}/octocat/train/pull/7", headers=plain).status == 404


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# A *b*", "<h1>A <em>b</em></h1>"),
        ("a\nb", "<p>a<br>b</p>"),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("1. a\n2. b", "<ol><li>a</li><li>b</li></ol>"),
        ("> q", "<blockquote><p>q</p></blockquote>"),
        ("---", "<hr>"),
        ("`a*b*`", "<p><code>a*b*</code></p>"),
        ("``a`b``", "<p><code>a`b</code></p>"),
        ("snake_case_name", "<p>snake_case_name</p>"),
        ("2 * 3 * 4", "<p>2 * 3 * 4</p>"),
        ("~~no~~", "<p><del>no</del></p>"),
        ("a<!-- hidden -->b", "<p>ab</p>"),
        ("a<!-- open", "<p>a&lt;!-- open</p>"),
        ("[t](http://a/b)", '<p><a href="http://a/b" rel="nofollow">t</a></p>'),
        ("[t](javascript:x)", "<p>t</p>"),
        ("[t](//evil/x)", "<p>t</p>"),
        ("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>"),
        ('<img src=x onerror="y">', '<p>&lt;img src=x onerror="y"&gt;</p>'),
        ("<sub>s</sub> &middot; &amp;", "<p><sub>s</sub> &middot; &amp;</p>"),
        ("```\n<b>\n```", '<pre class="code"><code>&lt;b&gt;</code></pre>'),
        ("````\n```\n````", '<pre class="code"><code>```</code></pre>'),
        (
            "<details>\n<summary>S *x*</summary>\n\n- a\n\n</details>",
            "<details><summary>S <em>x</em></summary><ul><li>a</li></ul></details>",
        ),
    ],
)
def test_markdown(text: str, html: str) -> None:
    assert render(text) == html


def test_a_table_with_sides_and_bars() -> None:
    html = render("| a | b |\n|:-|-:|\n| `x` | 1\\|2 |")
    assert '<td><code>x</code></td><td style="text-align: right">1|2</td>' in html


PIECES = [
    "<details>",
    "</details>",
    "<summary>",
    "```",
    "~~~",
    "**",
    "__",
    "`",
    "[",
    "](",
    ")",
    "![",
    "|",
    "---",
    "-",
    "1.",
    ">",
    "#",
    "<!--",
    "-->",
    "\n",
    "\n\n",
    "<b>",
    "<script>",
    "&",
    "'",
    '"',
    "onerror=",
    "javascript:",
    "http://x",
    "\\",
    "~~",
    "[x]",
    "a",
    "漢",
    " ",
]
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@settings(max_examples=150, deadline=None)
@given(text=HOSTILE)
def test_nothing_breaks_out(text: str) -> None:
    reader = Reader()
    # Words of markup may be left open, as on GitHub, whose pages then close them.
    bare = render(text)
    for word in ("sub", "sup", "kbd", "b", "i", "em", "strong", "ins", "del"):
        bare = bare.replace(f"<{word}>", "").replace(f"</{word}>", "")
    reader.feed(bare)
    for name, attributes in reader.seen:
        if name == "a":
            assert not (attributes["href"] or "").startswith(("javascript:", "//"))
