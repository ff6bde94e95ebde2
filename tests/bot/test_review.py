"""The review as a pure function: what is said, where, and what is left alone."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pitstop.bot.check_run import BATCH, MAX_ANNOTATIONS, MAX_SUMMARY, make_check_run
from pitstop.bot.diff import Diff, FileDiff, Hunk, Status
from pitstop.bot.markdown import is_unicode, utf8_bytes
from pitstop.bot.placement import Filter
from pitstop.bot.posting import Audited
from pitstop.bot.pulls import Comment, Posted, Thread
from pitstop.bot.report import Report, ReportedFinding
from pitstop.bot.review import MAX_BODY, Policy, Review, key_of, mark
from pitstop.bot.summary import comment_body, find_summary, reviewed, says_the_same
from pitstop.bot.views import Links
from pitstop.rules.finding import Fix, Location, Safety, Severity, Span, Unread
from pitstop.rules.tree import DictTree, SourceFile
from pitstop.transforms.patch import Changed, Edit, Patch, Refused, Unchanged, apply_edits
from tests.bot.reviewing import audit_marks, finding

SHA = "a" * 40
LINKS = Links("https://github.com", "octocat/train", SHA)
TEN = "".join(f"{n}\n" for n in range(1, 11))


def audited(
    files: dict[str, str], diff: Diff, report: Report | None = None, **changes: Any
) -> Audited:
    from pitstop.bot.audit import AuditRequest

    tree = DictTree(files)
    report = report or audit_marks(tree, AuditRequest(revision=SHA))
    return Audited(3, dataclasses.replace(report, **changes), diff, tree, LINKS)


def whole(path: str, text: str) -> FileDiff:
    lines = range(1, text.count("\n") + 1)
    return FileDiff(path, Status.ADDED, None, (Hunk(lines, (lines,)),))


def new_files(files: dict[str, str], **changes: Any) -> Audited:
    return audited(files, Diff({path: whole(path, t) for path, t in files.items()}), **changes)


def thread(body: str, **other: Any) -> Thread:
    fields: dict[str, Any] = {"id": "T1", "path": "a", "ours": True, "resolved": False}
    return Thread(body=body, **{**fields, **other})


def said(review: Review) -> tuple[Thread, ...]:
    """The threads that a review makes."""
    return tuple(
        thread(comment.body, id=f"T{number}", path=comment.path)
        for number, comment in enumerate(review.comments)
    )


def test_key_and_rule_stand_hidden_at_the_end_of_a_comment() -> None:
    (comment,) = new_files({"a": "SLOW\n"}).review(Posted(), Policy()).comments
    assert key_of(comment.body) == comment.key
    assert key_of(comment.body + "\n\n") == comment.key
    assert key_of(comment.body + "more") is None


def test_rule_cannot_end_the_hidden_mark() -> None:
    assert key_of(mark("0" * 16, "x --> y -- <!--")) == "0" * 16
    assert mark("0" * 16, "x-->").count("-->") == 1


def test_same_words_on_two_lines_are_two_findings() -> None:
    review = new_files({"a": "SLOW\nx\nSLOW\n"}).review(Posted(), Policy())
    first, second = review.comments
    assert second.key == f"{first.key}-2"
    again = new_files({"a": "SLOW\nx\nSLOW\n"}).review(Posted(threads=said(review)), Policy())
    assert again.comments == () and again.resolve == ()


def test_one_of_two_same_findings_is_fixed() -> None:
    review = new_files({"a": "SLOW\nx\nSLOW\n"}).review(Posted(), Policy())
    again = new_files({"a": "SLOW\nx\n"}).review(Posted(threads=said(review)), Policy())
    assert [key_of(thread.body) for thread in again.resolve] == [review.comments[1].key]


def test_threads_of_others_are_not_ours_to_touch() -> None:
    theirs = thread(mark("0" * 16, "GEN-F01"), ours=False)
    review = new_files({"a": "SLOW\n"}).review(Posted(threads=(theirs,)), Policy())
    assert review.resolve == () and len(review.comments) == 1


def test_thread_of_an_unread_file_or_a_broken_rule_is_left() -> None:
    gone = thread(mark("0" * 16, "GEN-F01"))
    posted = Posted(threads=(gone,))
    unread = new_files({"a": "x\n"}, unread=(Unread("a", "broken"),))
    skipped = new_files({"a": "x\n"}, skipped=(("GEN-F01", "broke"),))
    assert new_files({"a": "x\n"}).review(posted, Policy()).resolve == (gone,)
    assert unread.review(posted, Policy()).resolve == ()
    assert skipped.review(posted, Policy()).resolve == ()


def test_resolving_can_be_switched_off() -> None:
    posted = Posted(threads=(thread(mark("0" * 16, "GEN-F01")),))
    review = new_files({"a": "x\n"}).review(posted, Policy(resolve=False))
    assert review.resolve == review.answered == ()


@pytest.mark.parametrize(
    ("resolved", "by_us", "again"),
    [(False, False, False), (True, False, False), (True, True, True)],
    ids=["open", "closed by a person", "closed by us"],
)
def test_when_a_finding_is_said_again(resolved: bool, by_us: bool, again: bool) -> None:
    audit = new_files({"a": "SLOW\n"})
    (comment,) = audit.review(Posted(), Policy()).comments
    old = thread(comment.body, resolved=resolved, closed_by_us=by_us)
    review = audit.review(Posted(threads=(old,)), Policy())
    assert bool(review.comments) == again


def test_most_severe_first_and_the_rest_explained_in_the_summary() -> None:
    text = "".join(f"SLOW {n}{' CRITICAL' if n > 27 else ''}\n" for n in range(30))
    review = new_files({"a": text}).review(Posted(), Policy())
    assert len(review.comments) == 25 and len(review.detailed) == 5
    assert {comment.line for comment in review.comments[:2]} == {29, 30}


def test_full_number_of_comments_stays_when_run_again() -> None:
    text = "".join(f"SLOW {n}\n" for n in range(60))
    audit = new_files({"a": text})
    review = audit.review(Posted(), Policy())
    assert audit.review(Posted(threads=said(review)), Policy()).comments == ()


def test_critical_finding_is_said_although_the_number_is_full() -> None:
    text = "".join(f"SLOW {n}\n" for n in range(60))
    review = new_files({"a": text}).review(Posted(), Policy())
    more = new_files({"a": f"{text}SLOW CRITICAL\n"})
    (comment,) = more.review(Posted(threads=said(review)), Policy()).comments
    assert comment.line == 61


@pytest.mark.parametrize(
    "file",
    [
        FileDiff("a", Status.DELETED),
        FileDiff("a", submodule=True),
        None,
    ],
)
def test_no_comment_where_github_takes_none(file: FileDiff | None) -> None:
    diff = Diff({"a": file} if file else {})
    review = audited({"a": "SLOW\n"}, diff).review(Posted(), Policy())
    assert review.comments == () and len(review.detailed) == 1


@pytest.mark.parametrize("file", [FileDiff("a", Status.RENAMED, "b"), FileDiff("a", binary=True)])
def test_comment_on_a_file_without_lines(file: FileDiff) -> None:
    (comment,) = audited({"a": "SLOW\n"}, Diff({"a": file})).review(Posted(), Policy()).comments
    assert (comment.line, comment.start) == (None, None)


def test_finding_over_several_lines_is_told_on_the_first_added_one() -> None:
    text = "call(\n  x,\n  SLOW,\n)\n"
    file = SourceFile("a", text)
    one = finding(file.location(0, len(text) - 1))
    report = Report("0", (), (ReportedFinding(one, Refused("no")),))
    hunk = Hunk(range(1, 5), (range(3, 4),))
    diff = Diff({"a": FileDiff("a", hunks=(hunk,))})
    (comment,) = audited({"a": text}, diff, report).review(Posted(), Policy()).comments
    assert (comment.start, comment.line) == (None, 3)


def test_start_is_left_out_on_a_single_line() -> None:
    text = "a\nSLOW SLOW\n"
    review = new_files({"a": text}).review(Posted(), Policy())
    assert all((one.start, one.line) == (None, 2) for one in review.comments)


def test_unsafe_change_is_shown_but_not_offered() -> None:
    (comment,) = new_files({"a": "SLOW CLOSER\n"}).review(Posted(), Policy()).comments
    assert "```suggestion" not in comment.body
    assert "-SLOW CLOSER" in comment.body and "Measure it before you keep it" in comment.body


def test_suggestions_can_be_switched_off() -> None:
    review = new_files({"a": "SLOW\n"}).review(Posted(), Policy(suggestions=False))
    assert "```suggestion" not in review.comments[0].body and "+FAST" in review.comments[0].body


def test_suggestion_with_back_ticks_has_a_longer_fence() -> None:
    review = new_files({"a": "```` SLOW ```\n"}).review(Posted(), Policy())
    assert "\n`````suggestion\n```` FAST ```\n`````\n" in review.comments[0].body


# The summary


def summary(audit: Audited, before: str | None = None, **policy: Any) -> str:
    review = audit.review(Posted(), Policy(**policy))
    return comment_body(audit.summary(review, review.detailed), SHA, before)


def test_summary_names_each_commit_once_and_in_order() -> None:
    first = summary(new_files({"a": "SLOW\n"}))
    assert reviewed(first) == (SHA,)
    assert reviewed(summary(new_files({"a": "x\n"}), first)) == (SHA,)
    older = first.replace(SHA, "b" * 40)
    assert reviewed(summary(new_files({"a": "x\n"}), older)) == ("b" * 40, SHA)


def test_forged_list_of_commits_in_a_file_is_not_read() -> None:
    forged = f"<!-- pitstop:reviewed {'b' * 40} -->"
    body = summary(new_files({f"{forged}\n{forged}": f"{forged} SLOW\n"}), max_inline=0)
    assert reviewed(body) == (SHA,)


def test_summary_is_found_only_where_we_wrote_it() -> None:
    body = summary(new_files({"a": "SLOW\n"}))
    assert find_summary([Comment(1, body, False), Comment(2, "hello", True)]) is None
    ours = Comment(5, body, True)
    assert find_summary([Comment(1, body, False), ours, Comment(9, body, True)]) == ours


def test_same_words_from_another_run_are_the_same() -> None:
    page = "https://github.com/o/r/actions/runs/{}"
    assert says_the_same(f"a {page.format(1)}\r\nb\n", f"a {page.format(22)}\nb")
    assert not says_the_same("a", "b")


def test_unread_places_are_told_when_nothing_was_found() -> None:
    body = summary(new_files({"a": "x\n"}, unread=(Unread("a", "broken"),)))
    assert body.splitlines()[0].startswith("Nothing found in this change; 1 place not read")


def test_long_summary_is_cut_after_a_whole_row() -> None:
    text = "".join(f"SLOW {n} {'中' * 50}\n" for n in range(900))
    body = summary(new_files({"a": text}))
    assert MAX_BODY - 2_000 < len(body) <= MAX_BODY
    assert "Shortened to the room there is" in body
    assert reviewed(body) == (SHA,)
    shown = body.split("*Shortened")[0]
    assert shown.rstrip().endswith("|")


def test_check_run_counts_bytes() -> None:
    text = "".join(f"SLOW {n}\n" for n in range(900))
    audit = new_files({f"{'中' * 60}": text})
    review = audit.review(Posted(), Policy())
    check = make_check_run(audit.report, review, audit.summary(review, ()), audit.tree, None)
    assert MAX_SUMMARY - 2_000 < utf8_bytes(check.summary) <= MAX_SUMMARY
    assert len(check.annotations) == 900


def test_annotations_come_in_batches_of_which_the_last_completes() -> None:
    audit = new_files({"a": "".join(f"SLOW {n}\n" for n in range(120))})
    review = audit.review(Posted(), Policy())
    check = make_check_run(audit.report, review, audit.summary(review, ()), audit.tree, None)
    requests: list[Any] = [check.request(start) for start in (0, BATCH, 2 * BATCH)]
    sizes = [len(request["output"]["annotations"]) for request in requests]
    assert sizes == [50, 50, 20]
    assert [request["status"] for request in requests] == ["in_progress"] * 2 + ["completed"]
    assert ["conclusion" in request for request in requests] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "threshold", "conclusion"),
    [
        ("x\n", Severity.INFO, "success"),
        ("SLOW\n", None, "neutral"),
        ("SLOW\n", Severity.CRITICAL, "neutral"),
        ("SLOW\n", Severity.WARNING, "failure"),
        ("SLOW CRITICAL\n", Severity.CRITICAL, "failure"),
    ],
)
def test_conclusion(text: str, threshold: Severity | None, conclusion: str) -> None:
    audit = new_files({"a": text})
    review = audit.review(Posted(), Policy())
    made = make_check_run(audit.report, review, audit.summary(review, ()), audit.tree, threshold)
    assert made.conclusion == conclusion


def test_check_run_of_the_same_result_is_known_again() -> None:
    audit = new_files({"a": "SLOW\n"})
    later = dataclasses.replace(audit, run_url="https://github.com/o/r/actions/runs/8")
    earlier = dataclasses.replace(audit, run_url="https://github.com/o/r/actions/runs/7")
    other = new_files({"a": "x SLOW\n"})

    def made(one: Audited) -> str:
        review = one.review(Posted(), Policy())
        summary = one.summary(review, ())
        return make_check_run(one.report, review, summary, one.tree, None).external_id

    assert made(later) == made(earlier) != made(other)


# Anything at all

HOSTILE = st.sampled_from(
    [
        "<!-- pitstop:summary --><script>",
        "@octocat #1 https://evil.example",
        "```suggestion\nrm -rf /\n```",
        "| a | b |",
        "</details>",
        "x\ny\r\nz",
        "\udcff\u202e\x1b",
        "中" * 40,
        "😀" * 40,
        "`" * 9,
        "-->",
        "",
        "word " * 3_000,
    ]
)
PATHS = ("a", "dir/b c", "中.sh", "x|y`z", "na\udcffme", "<b>@x")
LINES = st.sampled_from(["x = 0", "SLOW", "", "```", "  y: 1", "@octocat", "\x0c", "中文"])


@st.composite
def audits(draw: st.DrawFn) -> Audited:
    """Any findings anywhere, with any words, over any diff."""
    files, changed = {}, {}
    for path in draw(st.lists(st.sampled_from(PATHS), unique=True, max_size=4)):
        end = draw(st.sampled_from(["\n", "\r\n"]))
        text = "".join(line + end for line in draw(st.lists(LINES, max_size=20)))
        files[path] = text
        if draw(st.booleans()):
            changed[path] = draw(file_diffs(path, text.count("\n")))
    found = tuple(draw(st.lists(reported(files), max_size=40)))
    unread = tuple(Unread(p, draw(HOSTILE)) for p in draw(st.lists(st.sampled_from(PATHS))))
    skipped = tuple((draw(HOSTILE), draw(HOSTILE)) for _ in range(draw(st.integers(0, 2))))
    report = Report("0", (), found, unread=unread, skipped=skipped, revision=SHA)
    return Audited(3, report, Diff(changed), DictTree(files), LINKS)


@st.composite
def file_diffs(draw: st.DrawFn, path: str, lines: int) -> FileDiff:
    hunks, at = [], 1
    for size in draw(st.lists(st.integers(1, 8), max_size=4)):
        start = at + draw(st.integers(0, 3))
        stop = min(start + size, lines + 1)
        if start >= stop:
            break
        first = draw(st.integers(start, stop - 1))
        added = (range(first, draw(st.integers(first, stop))),)
        hunks.append(Hunk(range(start, stop), tuple(part for part in added if part)))
        at = stop + 1
    return FileDiff(
        path,
        draw(st.sampled_from(list(Status))),
        hunks=tuple(hunks),
        submodule=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def reported(draw: st.DrawFn, files: dict[str, str]) -> ReportedFinding:
    path = draw(st.sampled_from(PATHS))
    text = files.get(path, "")
    start = draw(st.integers(0, len(text)))
    stop = draw(st.integers(start, len(text)))
    at = SourceFile(path, text).location(start, stop)
    if draw(st.integers(0, 9)) == 0:
        at = Location(path, Span(5, 2_000), 9_999, 1, 9_999, 4)
    safety = draw(st.sampled_from(list(Safety)))
    words = {name: draw(HOSTILE) for name in ("title", "message", "cost", "source", "leave_when")}
    one = finding(
        at,
        rule=draw(st.sampled_from(["GEN-F01", "HF-A2", "odd --> <!--"])),
        severity=draw(st.sampled_from(list(Severity))),
        anchor=draw(st.sampled_from(["x", "y"])),
        fix=Fix("set_knob", {}, safety, draw(HOSTILE)) if draw(st.booleans()) else None,
        **words,
    )
    new = draw(st.sampled_from(["FAST", "", "a\nb\n", "```", "x\r\n"]))
    patch = Patch((Edit(path, Span(start, stop), text[start:stop], new),))
    outcome = draw(st.sampled_from([Changed(patch), Unchanged(), Refused("<b>@x")]))
    return ReportedFinding(one, outcome, draw(st.booleans()))


def suggested(body: str) -> str | None:
    blocks = (t for t in MarkdownIt().parse(body) if t.type == "fence" and t.info == "suggestion")
    block = next(blocks, None)
    return block.content.removesuffix("\n") if block else None


@settings(max_examples=150, deadline=None)
@given(audits(), st.sampled_from(list(Filter)), st.integers(0, 25))
def test_any_report_over_any_diff(audit: Audited, wanted: Filter, most: int) -> None:
    policy = Policy(wanted, most)
    review = audit.review(Posted(), policy)
    assert len(review.comments) <= most
    for comment in review.comments:
        assert len(comment.body) <= MAX_BODY
        assert is_unicode(comment.body) and is_unicode(comment.path)
        assert key_of(comment.body) == comment.key
        file = audit.diff.files[comment.path]
        assert file.status is not Status.DELETED and not file.submodule
        offer = suggested(comment.body)
        if comment.line is None:
            assert comment.start is None and offer is None
            continue
        first = comment.line if comment.start is None else comment.start
        assert comment.start is None or comment.start < comment.line
        assert file.hunk_at(first, comment.line) is not None
        if offer is not None:
            press(audit, review, comment.key, first, comment.line, offer)
    assert len({comment.key for comment in review.comments}) == len(review.comments)
    spoken = {one.key for one in review.findings}
    told = {one.key for one in review.detailed} | {one.key for one in review.comments}
    assert told == spoken and len(review.older) == len(audit.report.findings) - len(spoken)
    again = audit.review(Posted(threads=said(review)), policy)
    assert again.comments == again.resolve == again.answered == ()
    check_bodies(audit, review)


def press(audit: Audited, review: Review, key: str, first: int, last: int, offer: str) -> None:
    """Committing the suggestion gives the patched file."""
    (one,) = [one for one in review.findings if one.key == key]
    outcome = one.reported.outcome
    assert isinstance(outcome, Changed) and one.file is not None
    assert one.reported.finding.fix is not None
    assert one.reported.finding.fix.safety is Safety.SAFE
    end = "\r\n" if "\r\n" in one.file.text else "\n"
    lines = one.file.text.split(end)
    lines[first - 1 : last] = offer.split("\n")
    assert end.join(lines) == apply_edits(one.file, outcome.patch.edits)


def check_bodies(audit: Audited, review: Review) -> None:
    summary = audit.summary(review, review.detailed, ("a remark",))
    body = comment_body(summary, SHA, None)
    assert len(body) <= MAX_BODY and is_unicode(body)
    assert reviewed(body) == (SHA,)
    rendered = MarkdownIt("commonmark", {"html": False}).enable("table").render(body)
    assert "<script" not in rendered and 'href="https://evil' not in rendered
    outside = re.sub(r"<code.*?</code>|<pre.*?</pre>|href=\"[^\"]*\"", "", rendered, flags=re.S)
    assert "@octocat" not in outside and "#1" not in outside.replace("&#1", "")
    check = make_check_run(audit.report, review, summary, audit.tree, Severity.CRITICAL)
    assert utf8_bytes(check.summary) <= MAX_SUMMARY
    assert len(check.annotations) <= MAX_ANNOTATIONS
    for annotation in check.annotations:
        assert 1 <= int(annotation["start_line"]) <= int(annotation["end_line"])
        assert annotation["message"] and len(str(annotation["title"])) <= 255
        assert is_unicode("".join(map(str, annotation.values())))
