"""For each limit of GitHub's that no schema holds, one bad request is refused as GitHub does it."""

from __future__ import annotations

from typing import Any

import pytest

from demo.forge import Forge
from demo.gitrepo import File
from demo.handles import ForgePull

LINES = "".join(f"line {number}\n" for number in range(1, 61))
CHANGED = LINES.replace("line 20\n", "new 20\n").replace("line 40\n", "")
PULL = "/repos/octocat/train/pulls/1"
REVIEWS = f"{PULL}/reviews"
COMMENTS = f"{PULL}/comments"
TALK = "/repos/octocat/train/issues/1/comments"
CHECKS = "/repos/octocat/train/check-runs"


@pytest.fixture
def pull(forge: Forge) -> ForgePull:
    """Changes line 20 and removes line 40 of a.txt; the hunks are 17-23 and 37-42."""
    files = {"a.txt": LINES, "gone.txt": "1\n2\n", "old.txt": LINES, "image.bin": b"\0\1" * 50}
    repo = forge.create_repo(files)
    return repo.open_pull(
        {
            "a.txt": CHANGED,
            "gone.txt": None,
            "old.txt": None,
            "new.txt": LINES,
            "image.bin": b"\0\2" * 50,
            "module": File(b"1" * 40, "160000"),
        }
    )


def line(number: int, **more: Any) -> dict[str, Any]:
    return {"path": "a.txt", "line": number, "side": "RIGHT", "body": "text"} | more


# Where a comment may stand


@pytest.mark.parametrize(
    ("comment", "sentence"),
    [
        pytest.param(line(16), "Line could not be resolved", id="just above the hunk"),
        pytest.param(line(24), "Line could not be resolved", id="just below the hunk"),
        pytest.param(line(1000), "Line could not be resolved", id="past the end of the file"),
        pytest.param(line(0), "Line could not be resolved", id="line nought"),
        pytest.param(
            line(40, side="LEFT", path="new.txt"),
            "Line could not be resolved",
            id="a side that a renamed file does not have",
        ),
        pytest.param(
            line(1, path="gone.txt"), "Line could not be resolved", id="right of a deleted file"
        ),
        pytest.param(
            line(1, path="image.bin"), "Line could not be resolved", id="in a binary file"
        ),
        pytest.param(line(1, path="module"), "Line could not be resolved", id="in a submodule"),
        pytest.param(
            line(3, path="new.txt"), "Line could not be resolved", id="in a file merely renamed"
        ),
        pytest.param(line(1, path="other.txt"), "Path could not be resolved", id="another file"),
        pytest.param(line(1, path="old.txt"), "Path could not be resolved", id="the old name"),
        pytest.param(
            {"path": "a.txt", "position": 99, "body": "x"},
            "Line could not be resolved",
            id="a position past the diff",
        ),
        pytest.param(
            {"path": "a.txt", "body": "x"}, "Line could not be resolved", id="no place at all"
        ),
        pytest.param(
            line(20, start_line=20, start_side="RIGHT"),
            "Pull request review thread start line must precede the end line.",
            id="a range of one line",
        ),
        pytest.param(
            line(20, start_line=22, start_side="RIGHT"),
            "Pull request review thread start line must precede the end line.",
            id="a range from below",
        ),
        pytest.param(
            line(20, start_line=5, start_side="RIGHT"),
            "Pull request review thread start line must be part of the diff",
            id="a range from outside",
        ),
        pytest.param(
            line(38, start_line=20, start_side="RIGHT"),
            "Pull request review thread start line must be part of the same hunk as the line.",
            id="a range over two hunks",
        ),
        pytest.param(
            line(20, start_side="RIGHT"),
            "Pull request review thread start line can't be blank",
            id="a start side without a start line",
        ),
    ],
)
def test_one_bad_comment_refuses_the_whole_review(
    pull: ForgePull, ask: Any, comment: dict[str, Any], sentence: str
) -> None:
    good = [line(20), line(38)]
    bad = {"body": "b", "event": "COMMENT", "comments": [good[0], comment, good[1]]}
    reply = ask("POST", REVIEWS, bad)
    assert (reply.status, reply.message) == (422, "Unprocessable Entity")
    assert reply.errors == [sentence]
    assert reply.json["documentation_url"].startswith("https://docs.github.com/rest/pulls/reviews#")
    assert pull.reviews() == [] and pull.review_comments() == []


@pytest.mark.parametrize("name", ["side", "start_side"])
def test_a_side_is_left_or_right(pull: ForgePull, ask: Any, name: str) -> None:
    comment = line(22, start_line=20) | {name: "BOTH"}
    reply = ask("POST", REVIEWS, {"body": "b", "event": "COMMENT", "comments": [comment]})
    assert reply.status == 422
    assert reply.message.startswith("Invalid request.") and "BOTH" in reply.message


def test_a_review_holds_no_comments_on_files(pull: ForgePull, ask: Any) -> None:
    comment = {"path": "a.txt", "body": "x", "subject_type": "file"}
    reply = ask("POST", REVIEWS, {"body": "b", "event": "COMMENT", "comments": [comment]})
    assert reply.status == 422 and "subject_type" in reply.message


@pytest.mark.parametrize(
    ("comment", "field", "text"),
    [
        (line(16), "line", "must be part of the diff"),
        (line(1, path="other.txt"), "path", "could not be resolved"),
        (line(20, start_line=20), "start_line", "must precede the end line."),
        (line(38, start_line=20), "start_line", "must be part of the same hunk as the line."),
        (line(20, start_line=5), "start_line", "must be part of the diff"),
    ],
)
def test_a_single_comment_is_refused_with_its_field(
    pull: ForgePull, ask: Any, comment: dict[str, Any], field: str, text: str
) -> None:
    reply = ask("POST", COMMENTS, comment | {"commit_id": pull.head})
    assert (reply.status, reply.message) == (422, "Validation Failed")
    name = f"pull_request_review_thread.{field}"
    assert reply.errors == [
        {
            "resource": "PullRequestReviewComment",
            "code": "custom",
            "field": name,
            "message": f"{name} {text}",
        }
    ]


def test_a_single_comment_needs_a_place(pull: ForgePull, ask: Any) -> None:
    reply = ask("POST", COMMENTS, {"path": "a.txt", "body": "x", "commit_id": pull.head})
    assert reply.status == 422 and reply.message.startswith("Invalid request.")


def test_a_commit_must_belong_to_the_pull_request(pull: ForgePull, ask: Any) -> None:
    base = pull.repo.tip("main")
    review = {"body": "b", "event": "COMMENT", "commit_id": base}
    reply = ask("POST", REVIEWS, review)
    assert reply.errors == ["The commitOID is not part of the pull request"]
    unknown = ask("POST", REVIEWS, review | {"commit_id": "1" * 40})
    assert unknown.status == 422
    single = ask("POST", COMMENTS, line(20, commit_id=base))
    assert "not part of the pull request" in single.errors[0]["message"]
    nowhere = ask("POST", COMMENTS, line(20, commit_id="1" * 40))
    assert nowhere.message == f"No commit found for SHA: {'1' * 40}"


# Reviews


def test_an_empty_review_is_refused(pull: ForgePull, ask: Any) -> None:
    reply = ask("POST", REVIEWS, {"event": "COMMENT", "body": " "})
    assert (reply.status, reply.errors) == (422, ["Review body can't be blank"])
    assert ask("POST", REVIEWS, {"event": "COMMENT", "comments": [line(20)]}).status == 200


def test_a_request_for_changes_says_what(pull: ForgePull, ask: Any) -> None:
    reply = ask("POST", REVIEWS, {"event": "REQUEST_CHANGES"})
    wanted = ["You need to leave a comment indicating the requested changes."]
    assert (reply.status, reply.errors) == (422, wanted)


def test_nobody_approves_their_own_pull_request(forge: Forge, pull: ForgePull, ask: Any) -> None:
    token = forge.person("octocat")
    reply = ask("POST", REVIEWS, {"event": "APPROVE"}, token=token)
    assert (reply.status, reply.errors) == (422, ["Review Can not approve your own pull request"])


def test_one_pending_review_at_a_time(pull: ForgePull, ask: Any) -> None:
    begun = ask("POST", REVIEWS, {"comments": [line(20)]})
    assert begun.json["state"] == "PENDING" and pull.review_comments() == []
    again = ask("POST", REVIEWS, {"event": "COMMENT", "body": "b"})
    sentence = "User can only have one pending review per pull request"
    assert (again.status, again.errors) == (422, [sentence])
    alone = ask("POST", COMMENTS, line(20, commit_id=pull.head))
    assert alone.errors[0]["field"] == "user_id"
    ask("POST", f"{REVIEWS}/{begun.json['id']}/events", {"event": "COMMENT", "body": "b"})
    assert [c["line"] for c in pull.review_comments()] == [20]


def test_a_closed_pull_request_may_still_be_reviewed(pull: ForgePull, ask: Any) -> None:
    pull.close()
    assert ask("POST", REVIEWS, {"event": "COMMENT", "body": "late"}).status == 200


def test_a_suggestion_is_not_checked(pull: ForgePull, ask: Any) -> None:
    body = "```suggestion\nnot closed"
    assert (
        ask("POST", REVIEWS, {"event": "COMMENT", "comments": [line(20, body=body)]}).status == 200
    )


# Lengths


@pytest.mark.parametrize(
    "text", ["x" * 65_537, "漢" * 65_537, "🚀" * 65_537], ids=["latin", "CJK", "emoji"]
)
def test_bodies_are_counted_in_characters(pull: ForgePull, ask: Any, text: str) -> None:
    message = "Body is too long (maximum is 65536 characters)"
    for path, body in (
        (TALK, {"body": text}),
        (COMMENTS, line(20, body=text, commit_id=pull.head)),
    ):
        reply = ask("POST", path, body)
        assert (reply.status, reply.message) == (422, "Validation Failed")
        assert reply.errors[0]["message"] == message
    for body in (
        {"event": "COMMENT", "body": text},
        {"event": "COMMENT", "comments": [line(20, body=text)]},
    ):
        reply = ask("POST", REVIEWS, body)
        assert (reply.status, reply.errors) == (422, [message])
    assert ask("POST", TALK, {"body": text[:-1]}).status == 201


@pytest.mark.parametrize("body", ["", " \n"])
def test_a_comment_says_something(pull: ForgePull, ask: Any, body: str) -> None:
    reply = ask("POST", TALK, {"body": body})
    assert reply.errors[0]["message"] == "Body cannot be blank"


def test_a_title_is_short(pull: ForgePull, ask: Any) -> None:
    reply = ask("PATCH", PULL, {"title": "x" * 257})
    assert "title is too long" in reply.errors[0]["message"]


def test_a_check_summary_is_counted_in_bytes_too(pull: ForgePull, ask: Any) -> None:
    check = {"name": "c", "head_sha": pull.head, "status": "queued"}
    long = {"title": "t", "summary": "x" * 65_536}
    reply = ask("POST", CHECKS, check | {"output": long})
    assert "Only 65535 characters are allowed; 65536 were supplied." in reply.message
    wide = {"title": "t", "summary": "漢" * 21_846}
    reply = ask("POST", CHECKS, check | {"output": wide})
    assert reply.errors == [
        {
            "resource": "CheckRun",
            "code": "custom",
            "field": "summary",
            "message": "summary exceeds a maximum bytesize of 65535",
        }
    ]
    assert ask("POST", CHECKS, check | {"output": long | {"summary": "x" * 65_535}}).status == 201


# Check runs


def check(pull: ForgePull, **more: Any) -> dict[str, Any]:
    return {"name": "Pitstop", "head_sha": pull.head} | more


def mark(**more: Any) -> dict[str, Any]:
    place = {"path": "a.txt", "start_line": 1, "end_line": 1}
    return place | {"annotation_level": "notice", "message": "m"} | more


def test_a_completed_check_has_a_conclusion(pull: ForgePull, ask: Any) -> None:
    reply = ask("POST", CHECKS, check(pull, status="completed"))
    assert reply.status == 422 and '"conclusion" wasn\'t supplied.' in reply.message
    begun = ask("POST", CHECKS, check(pull, status="in_progress"))
    reply = ask("PATCH", f"{CHECKS}/{begun.json['id']}", {"status": "completed"})
    assert reply.status == 422 and pull.checks()[0]["status"] == "in_progress"


def test_fifty_annotations_at_a_time(pull: ForgePull, ask: Any) -> None:
    output = {"title": "t", "summary": "s", "annotations": [mark()] * 51}
    reply = ask("POST", CHECKS, check(pull, output=output))
    assert reply.status == 422
    assert "No more than 50 items are allowed; 51 were supplied." in reply.message


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param(mark(start_line=5, end_line=4), id="ends before it begins"),
        pytest.param(mark(end_line=2, start_column=1, end_column=2), id="columns over two lines"),
        pytest.param(mark(path="/a.txt"), id="absolute path"),
        pytest.param(mark(message=""), id="no message"),
        pytest.param(mark(message="x" * 65_537), id="long message"),
        pytest.param(mark(title="x" * 256), id="long title"),
    ],
)
def test_an_annotation_makes_sense(pull: ForgePull, ask: Any, annotation: dict[str, Any]) -> None:
    output = {"title": "t", "summary": "s", "annotations": [annotation]}
    reply = ask("POST", CHECKS, check(pull, output=output))
    assert (reply.status, reply.message) == (422, "Validation Failed")
    assert pull.checks() == []


def test_a_check_stands_on_a_known_commit(pull: ForgePull, ask: Any) -> None:
    reply = ask("POST", CHECKS, check(pull, head_sha="1" * 40))
    assert (reply.status, reply.message) == (422, f"No commit found for SHA: {'1' * 40}")


def test_only_apps_write_checks(forge: Forge, pull: ForgePull, ask: Any) -> None:
    reply = ask("POST", CHECKS, check(pull), token=forge.person("octocat"))
    assert (reply.status, reply.message) == (403, "You must authenticate via a GitHub App.")


# What the schema in front of an operation refuses


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        (CHECKS, {"name": "c"}, '"head_sha" wasn\'t supplied.'),
        (TALK, {}, '"body" wasn\'t supplied.'),
        (REVIEWS, {"event": "SHOUT"}, '"SHOUT" is not a member of'),
        (REVIEWS, {"comments": [line(20) | {"line": "20"}]}, '"20" is not an integer.'),
        (REVIEWS, {"comments": [{"line": 20}]}, '"path" wasn\'t supplied.'),
        (REVIEWS, {"comments": {}}, "{} is not an array."),
    ],
)
def test_a_malformed_request_is_named(
    pull: ForgePull, ask: Any, path: str, body: dict[str, Any], sentence: str
) -> None:
    reply = ask("POST", path, body)
    assert reply.status == 422
    assert reply.message.startswith("Invalid request.\n\n") and sentence in reply.message


def test_broken_json_is_a_bad_request(pull: ForgePull, ask: Any) -> None:
    reply = ask("POST", TALK, b'{"body": ')
    assert (reply.status, reply.message) == (400, "Problems parsing JSON")


# Labels


def test_labels_are_new_short_and_coloured(pull: ForgePull, ask: Any) -> None:
    labels = "/repos/octocat/train/labels"
    assert ask("POST", labels, {"name": "Slow", "color": "ff0000"}).status == 201
    again = ask("POST", labels, {"name": "slow"})
    assert again.errors == [{"resource": "Label", "code": "already_exists", "field": "name"}]
    assert ask("POST", labels, {"name": "x" * 51}).status == 422
    assert ask("POST", labels, {"name": "y", "description": "x" * 101}).status == 422
    assert ask("POST", labels, {"name": "z", "color": "red"}).status == 422


# Pull requests and references


def test_a_pull_request_brings_something_new(forge: Forge, pull: ForgePull, ask: Any) -> None:
    new = {"title": "t", "head": "change", "base": "main"}
    again = ask("POST", "/repos/octocat/train/pulls", new)
    message = "A pull request already exists for octocat:change."
    assert again.errors[0]["message"] == message
    same = ask("POST", "/repos/octocat/train/pulls", new | {"base": "change"})
    assert same.errors[0]["message"] == "No commits between change and change"
    nowhere = ask("POST", "/repos/octocat/train/pulls", new | {"base": "nowhere"})
    assert nowhere.errors[0]["field"] == "base"
    stranger = ask("POST", "/repos/octocat/train/pulls", new | {"head": "eve:change"})
    assert stranger.errors[0]["field"] == "head"


def test_references_move_forward_only(pull: ForgePull, ask: Any) -> None:
    refs, base = "/repos/octocat/train/git/refs", pull.repo.tip("main")
    back = ask("PATCH", f"{refs}/heads/change", {"sha": base})
    assert (back.status, back.message) == (422, "Update is not a fast forward")
    again = ask("POST", refs, {"ref": "refs/heads/change", "sha": base})
    assert (again.status, again.message) == (422, "Reference already exists")
    bare = ask("POST", refs, {"ref": "change", "sha": base})
    assert bare.status == 422
    missing = ask("DELETE", f"{refs}/heads/missing")
    assert (missing.status, missing.message) == (422, "Reference does not exist")


def test_a_reviewer_is_not_the_author(pull: ForgePull, ask: Any) -> None:
    reply = ask("POST", f"{PULL}/requested_reviewers", {"reviewers": ["octocat"]})
    assert (reply.status, reply.message) == (
        422,
        "Review cannot be requested from pull request author.",
    )
