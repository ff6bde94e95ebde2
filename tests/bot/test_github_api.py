"""What GitHub says, in our words: pages, authors, and the answers that are errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.forge import Forge
from demo.handles import ForgePull
from pitstop.bot.github_api import GitHub
from pitstop.bot.transport import ApiError, ForbiddenError, OutOfTimeError, RefusedError, Transport
from tests.bot.reviewing import Time


def github(forge: Forge, pull: ForgePull, token: str | None = None, limit: float = 600) -> GitHub:
    return GitHub(
        pull.repo.name,
        token or forge.token,
        Transport(limit, Time().clock),
        api_url=forge.api,
        graphql_url=forge.graphql,
    )


@pytest.fixture
def pull(forge: Forge) -> ForgePull:
    return forge.create_repo({"a": "1\n"}).open_pull({"a": "2\n"})


def never() -> None:
    return None


def post_thread(api: GitHub, pull: ForgePull, body: str) -> None:
    comment = {"path": "a", "line": 1, "side": "RIGHT", "body": body}
    api.create_review(pull.number, pull.head, [comment], lambda: False)


def test_pull_request(forge: Forge, pull: ForgePull) -> None:
    pull.add_label("x")
    found = github(forge, pull).pull(pull.number)
    assert (found.number, found.state, found.draft) == (1, "open", False)
    assert (found.head_sha, found.base_sha) == (pull.head, pull.repo.tip("main"))
    assert found.base_repository == pull.repo.name
    assert found.labels == {"x"}


def test_pull_request_of_a_deleted_fork(forge: Forge, pull: ForgePull) -> None:
    fork = forge.fork(pull.repo, "eve")
    other = pull.repo.open_pull({"a": "3\n"}, branch="evil", author="eve", source=fork)
    fork.delete()
    assert github(forge, other).pull(other.number).head_sha == other.head


def test_open_pull_requests_from_a_branch(forge: Forge, pull: ForgePull) -> None:
    fork = forge.fork(pull.repo, "eve")
    other = pull.repo.open_pull({"a": "3\n"}, branch="change", author="eve", source=fork)
    api = github(forge, pull)
    assert [one.number for one in api.pulls_from("eve", "change")] == [other.number]
    other.close()
    assert api.pulls_from("eve", "change") == ()


def test_comments_of_all_pages_and_whose_they_are(forge: Forge, pull: ForgePull) -> None:
    api = github(forge, pull)
    for number in range(120):
        pull.comment(f"{number}", "alice")
    api.create_comment(pull.number, "ours", never)
    found = api.comments(pull.number)
    assert len(found) == 121
    assert [comment.body for comment in found if comment.ours] == ["ours"]


@pytest.mark.parametrize("name", ["github-actions", "other[bot]", "octocat"])
def test_account_with_a_like_name_is_not_ours(forge: Forge, pull: ForgePull, name: str) -> None:
    pull.comment("theirs", name)
    assert [comment.ours for comment in github(forge, pull).comments(pull.number)] == [False]


def test_person_sees_their_own_as_ours(forge: Forge, pull: ForgePull) -> None:
    pull.repo.give_role("alice", "write")
    pull.comment("mine", "alice")
    pull.comment("a bot's", "alice[bot]")
    api = github(forge, pull, forge.person("alice"))
    assert api.comments(pull.number)[0].ours


def test_threads_of_all_pages(forge: Forge, pull: ForgePull) -> None:
    api = github(forge, pull)
    comment = {"path": "a", "line": 1, "side": "RIGHT", "body": "x"}
    api.create_review(pull.number, pull.head, [comment] * 120, lambda: False)
    found = api.threads(pull.number)
    assert len(found) == len({thread.id for thread in found}) == 120


def test_thread_and_who_answered(forge: Forge, pull: ForgePull) -> None:
    api = github(forge, pull)
    post_thread(api, pull, "ours")
    pull.reply(pull.threads()[0], "I see", "renovate[bot]")
    pull.reply(pull.threads()[0], "again", "github-actions[bot]")
    (thread,) = api.threads(pull.number)
    assert (thread.body, thread.ours, thread.replies, thread.path) == ("ours", True, 0, "a")
    pull.reply(pull.threads()[0], "why?", "alice")
    (thread,) = api.threads(pull.number)
    assert thread.replies == 1 and thread.url.startswith(forge.url)


def test_who_resolved_a_thread(forge: Forge, pull: ForgePull) -> None:
    api = github(forge, pull)
    post_thread(api, pull, "one")
    post_thread(api, pull, "two")
    first, second = api.threads(pull.number)
    api.resolve(first.id)
    pull.repo.give_role("alice", "write")
    github(forge, pull, forge.person("alice")).resolve(second.id)
    found = [(thread.resolved, thread.closed_by_us) for thread in api.threads(pull.number)]
    assert found == [(True, True), (True, False)]


def test_file_of_a_branch(forge: Forge, pull: ForgePull) -> None:
    api = github(forge, pull)
    pull.repo.commit("feature/x", {"dir/b c": "中\n"})
    assert api.file_text("a", "main") == "1\n"
    assert api.file_text("dir/b c", "feature/x") == "中\n"
    assert api.file_text("dir", "feature/x") is None
    assert api.file_text("nowhere", "main") is None


def test_comparison(forge: Forge, pull: ForgePull) -> None:
    start = pull.repo.tip("main")
    later = pull.repo.commit("main", {"b": "1\n"})
    pull.push({"bin": b"\0\1"})
    found = github(forge, pull).compare(later, pull.head)
    assert found is not None and found.merge_base == start
    assert found.complete and found.shown["bin"] is None
    assert found.shown["a"] is not None and found.shown["a"][0].lines == range(1, 2)


def test_annotations_add_up(forge: Forge, pull: ForgePull) -> None:
    api = github(forge, pull)
    annotation = {
        "path": "a",
        "start_line": 1,
        "end_line": 1,
        "annotation_level": "notice",
        "message": "x",
    }
    output = {"title": "t", "summary": "s", "annotations": [annotation] * 50}
    data = {"name": "Pitstop", "head_sha": pull.head, "external_id": "7", "output": output}
    made = api.create_check({**data, "status": "in_progress"}, never)
    assert (made.completed, made.annotations, made.external_id) == (False, 50, "7")
    update = {"status": "completed", "conclusion": "neutral", "output": output}
    assert api.update_check(made.id, update, 100).annotations == 100
    (found,) = api.checks(pull.head, "Pitstop")
    assert found.completed and found.annotations == 100
    assert api.checks(pull.head, "Other") == ()


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ({"kind": "404"}, RefusedError, "404: Not Found"),
        ({"kind": "401"}, ForbiddenError, "401: Bad credentials"),
        ({"kind": "502", "times": 99}, OutOfTimeError, "error page"),
        ({"kind": "reset", "times": 99}, OutOfTimeError, "no answer from GitHub"),
        ({"kind": "truncated", "times": 99}, OutOfTimeError, "GitHub"),
    ],
)
def test_errors_in_words(
    forge: Forge, pull: ForgePull, fault: dict[str, object], kind: type[ApiError], words: str
) -> None:
    forge.inject(**fault)
    with pytest.raises(kind, match=words) as caught:
        github(forge, pull, limit=5).pull(pull.number)
    assert forge.token not in str(caught.value)


def test_graphql_answers_errors_with_200(forge: Forge, pull: ForgePull) -> None:
    with pytest.raises(RefusedError) as caught:
        github(forge, pull).threads(99)
    assert caught.value.status == 404
    with pytest.raises(RefusedError):
        github(forge, pull).resolve("PRRT_nonsense")


def test_thread_that_the_token_may_not_resolve(forge: Forge, pull: ForgePull) -> None:
    post_thread(github(forge, pull), pull, "ours")
    with pytest.raises(ForbiddenError):
        api = github(forge, pull, forge.token_for({"pull_requests": "write"}))
        api.resolve(api.threads(pull.number)[0].id)


def test_refused_review_says_why(forge: Forge, pull: ForgePull) -> None:
    comment = {"path": "a", "line": 99, "side": "RIGHT", "body": "x"}
    with pytest.raises(RefusedError, match="Line could not be resolved"):
        github(forge, pull).create_review(pull.number, pull.head, [comment], lambda: False)


def test_no_wait_of_the_library_itself(forge: Forge, pull: ForgePull, tmp_path: Path) -> None:
    """PyGithub sleeps between requests unless told not to; only our transport may wait."""
    api = github(forge, pull)
    slept: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("github.Requester.time.sleep", slept.append)
        for _ in range(3):
            api.create_comment(pull.number, "x", never)
    assert slept == []
