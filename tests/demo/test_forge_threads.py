"""What becomes of comments on code when the pull request's head moves."""

from __future__ import annotations

from typing import Any

import pytest

from demo.forge import Forge
from demo.handles import ForgePull
from demo.state import Anchor

BASE = [f"line {number}" for number in range(1, 61)]
REVIEWS = "/repos/octocat/train/pulls/1/reviews"


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def changed(**lines: str) -> list[str]:
    """BASE with some lines replaced: changed(l20="new")."""
    found = list(BASE)
    for name, line in lines.items():
        found[int(name[1:]) - 1] = line
    return found


@pytest.fixture
def pull(forge: Forge) -> ForgePull:
    repo = forge.create_repo({"a.txt": text(BASE), "b.txt": text(BASE)})
    return repo.open_pull({"a.txt": text(changed(l20="new 20", l21="new 21"))})


def put(ask: Any, **place: Any) -> None:
    comment = {"path": "a.txt", "body": "here", "side": "RIGHT"} | place
    assert ask("POST", REVIEWS, {"event": "COMMENT", "comments": [comment]}).status == 200


def anchor(pull: ForgePull) -> Anchor:
    return pull.threads()[-1].anchor


def test_a_comment_moves_with_its_line(pull: ForgePull, ask: Any) -> None:
    put(ask, line=20)
    first = pull.head
    pull.push({"a.txt": text(["above"] * 2 + changed(l20="new 20", l21="new 21"))})
    assert (anchor(pull).line, anchor(pull).original_line) == (22, 20)
    assert (anchor(pull).commit, anchor(pull).original_commit) == (pull.head, first)
    (shown,) = pull.review_comments()
    assert (shown["line"], shown["commit_id"]) == (22, pull.head)
    assert (shown["original_line"], shown["original_commit_id"]) == (20, first)


@pytest.mark.parametrize(
    "lines",
    [changed(l20="newer 20", l21="new 21"), changed(l21="new 21"), BASE[:19] + BASE[21:], ["x"]],
    ids=["changed again", "taken back", "deleted", "all else"],
)
def test_a_comment_whose_line_changed_is_outdated(
    pull: ForgePull, ask: Any, lines: list[str]
) -> None:
    put(ask, line=20)
    pull.push({"a.txt": text(lines)})
    (shown,) = pull.review_comments()
    assert (shown["position"], shown["line"], shown["original_line"]) == (None, None, 20)
    assert anchor(pull).outdated
    # It stays so, even when the old text returns.
    pull.push({"a.txt": text(changed(l20="new 20", l21="new 21"))})
    assert anchor(pull).outdated


def test_a_comment_outside_the_new_diff_is_outdated(pull: ForgePull, ask: Any) -> None:
    put(ask, line=24)
    pull.push({"a.txt": text(changed(l20="new 20"))})
    assert anchor(pull).outdated


def test_a_range_lives_only_whole(pull: ForgePull, ask: Any) -> None:
    put(ask, start_line=19, start_side="RIGHT", line=22)
    pull.push({"a.txt": text(["above", *changed(l20="new 20", l21="new 21")])})
    assert (anchor(pull).start_line, anchor(pull).line) == (20, 23)
    pull.push({"a.txt": text(["above", *changed(l20="new 20", l21="newer 21")])})
    assert anchor(pull).outdated and anchor(pull).original_start_line == 19


def test_a_comment_on_a_removed_line_lives_on(pull: ForgePull, ask: Any) -> None:
    put(ask, line=20, side="LEFT")
    pull.push({"a.txt": text(changed(l20="newer 20", l21="new 21"))})
    assert (anchor(pull).line, anchor(pull).side, anchor(pull).outdated) == (20, "LEFT", False)


def test_a_change_elsewhere_touches_nothing(pull: ForgePull, ask: Any) -> None:
    put(ask, line=20)
    pull.push({"b.txt": text(changed(l1="x"))})
    assert (anchor(pull).line, anchor(pull).outdated) == (20, False)


def test_a_comment_on_a_file_lives_as_long_as_it_is_changed(pull: ForgePull, ask: Any) -> None:
    comment = {"path": "a.txt", "body": "b", "subject_type": "file", "commit_id": pull.head}
    shown = ask("POST", "/repos/octocat/train/pulls/1/comments", comment).json
    assert (shown["subject_type"], shown["line"], shown["position"]) == ("file", None, None)
    pull.push({"a.txt": text(changed(l40="x"))})
    assert not anchor(pull).outdated
    pull.push({"a.txt": text(BASE)})
    assert anchor(pull).outdated


def test_a_rewritten_branch_outdates_what_it_dropped(pull: ForgePull, ask: Any) -> None:
    put(ask, line=20)
    old, base = pull.head, pull.repo.tip("main")
    pull.repo.commit("change", {"a.txt": text(changed(l50="x"))}, parent=base)
    assert anchor(pull).outdated
    gone = {"event": "COMMENT", "body": "b", "commit_id": old}
    assert ask("POST", REVIEWS, gone).status == 422


def test_a_comment_on_an_earlier_commit_is_followed_at_once(pull: ForgePull, ask: Any) -> None:
    first = pull.head
    pull.push({"a.txt": text(["above", *changed(l20="new 20", l21="newer")])})
    comments = [{"path": "a.txt", "line": n, "body": "x"} for n in (20, 21)]
    review = {"event": "COMMENT", "commit_id": first, "comments": comments}
    assert ask("POST", REVIEWS, review).status == 200
    kept, lost = (thread.anchor for thread in pull.threads())
    assert (kept.line, kept.original_line, kept.outdated) == (21, 20, False)
    assert (lost.line, lost.original_line, lost.outdated) == (None, 21, True)


def test_a_moving_base_moves_the_diff(pull: ForgePull, ask: Any) -> None:
    put(ask, line=20)
    pull.repo.commit("main", {"b.txt": text(changed(l2="base"))})
    files = ask("GET", "/repos/octocat/train/pulls/1/files").json
    assert [file["filename"] for file in files] == ["a.txt"]
    assert anchor(pull).line == 20
