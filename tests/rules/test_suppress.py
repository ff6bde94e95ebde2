"""Comments that answer findings: where they may stand, what they must say."""

import ast

import pytest

from pitstop.rules.finding import Confidence, Finding, Location, Priority, Severity, Span
from pitstop.rules.suppress import answers, first_line, read_suppressions, sort_out
from pitstop.rules.tree import SourceFile


def finding(line: int, path: str = "run.sh", rule: str = "GEN-E05a") -> Finding:
    place = Location(path, Span(0, 1), line, 1, line, 2)
    return Finding(
        rule, "slug", "t", Severity.WARNING, Priority.LOW, Confidence.HIGH, "time", place,
        "m", "c", "s", "l", "a",
    )  # fmt: skip


def only(path: str, text: str) -> object:
    (found,) = read_suppressions(SourceFile(path, text))
    return found


@pytest.mark.parametrize(
    ("path", "text", "words", "reason"),
    [
        ("a.sh", "x # pitstop: ignore[GEN-E05a] a hang\n", ("GEN-E05a",), "a hang"),
        ("a.yaml", "# pitstop: ignore[HF, data-slug]: demo\n", ("HF", "data-slug"), "demo"),
        ("a.py", "x = 1  # pitstop:ignore[GEN-K01] — wanted\n", ("GEN-K01",), "wanted"),
        ("a.json", '{"a": 1} // pitstop: ignore[GEN-K10] profiling\n', ("GEN-K10",), "profiling"),
        ("a.json", "{} /* pitstop: ignore[GEN-K10] profile */\n", ("GEN-K10",), "profile"),
        ("a.sh", "# pitstop: ignore[A, ] 理由\r\n", ("A",), "理由"),
    ],
)  # fmt: skip
def test_a_comment_names_rules_and_a_reason(
    path: str, text: str, words: tuple[str, ...], reason: str
) -> None:
    found = only(path, text)
    assert (found.words, found.reason, found.fault) == (words, reason, None)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# pitstop: ignore[GEN-E05a]\n", "say why"),
        ("# pitstop: ignore because I say so\n", "name the rules"),
        ("# pitstop: ignore[] because\n", "name the rules"),
    ],
)
def test_a_comment_without_rule_or_reason_has_no_effect(text: str, said: str) -> None:
    found = only("a.sh", text)
    assert said in found.fault  # type: ignore[attr-defined]
    assert not answers(found, finding(1, "a.sh"), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.sh", "echo see#pitstop: ignore[A] x\n"),
        ("a.json", '{"a": "x # pitstop: ignore[A] y"}\n'),
        ("a.sh", "// pitstop: ignore[A] wrong marker\n"),
        ("a.sh", "# pitstop: ignored[A] other word\n"),
    ],
)
def test_what_only_looks_like_a_comment_is_none(path: str, text: str) -> None:
    assert read_suppressions(SourceFile(path, text)) == ()


def test_strings_of_python_are_no_comments() -> None:
    file = SourceFile("a.py", 's = "x # pitstop: ignore[A] b"\n# pitstop: ignore[B] real\n')
    found = read_suppressions(file, {2: "# pitstop: ignore[B] real"})
    assert [s.words for s in found] == [("B",)]


@pytest.mark.parametrize(
    ("comment", "line", "start", "held"),
    [
        ("run # pitstop: ignore[A] x", 1, 1, True),
        ("run # pitstop: ignore[A] x", 2, 2, False),
        ("# pitstop: ignore[A] x", 2, 2, True),
        ("# pitstop: ignore[A] x", 4, 2, True),
        ("# pitstop: ignore[A] x", 4, 4, False),
        ("# pitstop: ignore-file[A] x", 40, 40, True),
    ],
)
def test_where_a_comment_speaks(comment: str, line: int, start: int, held: bool) -> None:
    found = only("run.sh", comment + "\n")
    assert answers(found, finding(line), start) is held  # type: ignore[arg-type]
    assert not answers(found, finding(line, "other.sh"), start)  # type: ignore[arg-type]


def test_a_continued_command_begins_at_its_first_line() -> None:
    file = SourceFile("run.sh", "set -e\ntorchrun \\\n  a.py \\\n  --x 1\necho\n")
    assert [first_line(file, n) for n in (1, 2, 3, 4, 5)] == [1, 2, 2, 2, 5]


def test_a_python_statement_begins_at_its_first_line() -> None:
    text = "x = f(\n    1,\n    2,\n)\nfor a in b:\n    g(\n        a)\n"
    file = SourceFile("a.py", text)
    tree = ast.parse(text)
    assert [first_line(file, n, tree) for n in (2, 4, 5, 7)] == [1, 1, 5, 6]


def test_findings_are_sorted_into_standing_and_answered() -> None:
    comments = read_suppressions(
        SourceFile(
            "run.sh",
            "# pitstop: ignore[GEN] known\nx\ny # pitstop: ignore[HF-A01] other\n",
        )
    )
    first, second = finding(2), finding(3)
    standing, answered, unused = sort_out(
        [first, second],
        comments,
        lambda f: f.primary.line,
        lambda word, f: f.rule.startswith(word),
    )
    assert (standing, answered) == ([second], [(first, "known")])
    assert [s.words for s in unused] == [("HF-A01",)]
