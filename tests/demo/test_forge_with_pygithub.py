"""The forge serves the calls of the client library that Pitstop uses."""

from __future__ import annotations

import pytest
from github import Auth, Github, GithubException

from demo.forge import Forge

LINES = "".join(f"line {number}\n" for number in range(1, 41))
CHANGED = LINES.replace("line 20\n", "new 20\n")


def client(forge: Forge, token: str | None = None) -> Github:
    auth = Auth.Token(token or forge.token)
    settings = {"retry": None, "seconds_between_requests": None, "seconds_between_writes": None}
    return Github(base_url=forge.api, auth=auth, **settings)


@pytest.fixture(params=["forge", "enterprise_forge"])
def either(request: pytest.FixtureRequest) -> Forge:
    return request.getfixturevalue(request.param)


def test_a_pull_request_is_read(either: Forge) -> None:
    repo = either.create_repo({"a.txt": LINES})
    repo.open_pull({"a.txt": CHANGED, "b c/d.txt": "x\n"}, title="A change")
    pull = client(either).get_repo("octocat/train").get_pull(1)
    assert pull.title == "A change"
    assert [file.filename for file in pull.get_files()] == ["a.txt", "b c/d.txt"]
    assert pull.get_files()[0].patch.startswith("@@ -17,7 +17,7 @@")
    assert [commit.sha for commit in pull.get_commits()] == [pull.head.sha]
    assert pull.head.repo.full_name == pull.base.repo.full_name == "octocat/train"


def test_a_review_is_posted_and_read_back(either: Forge) -> None:
    repo = either.create_repo({"a.txt": LINES})
    posted = repo.open_pull({"a.txt": CHANGED})
    hub = client(either).get_repo("octocat/train")
    pull = hub.get_pull(1)
    comments = [
        {"path": "a.txt", "line": 20, "side": "RIGHT", "body": "one"},
        {
            "path": "a.txt",
            "start_line": 19,
            "start_side": "RIGHT",
            "line": 21,
            "side": "RIGHT",
            "body": "three",
        },
    ]
    review = pull.create_review(
        commit=hub.get_commit(pull.head.sha), body="text", event="COMMENT", comments=comments
    )
    assert review.state == "COMMENTED"
    assert [(c.start_line, c.line) for c in pull.get_review_comments()] == [(None, 20), (19, 21)]
    assert [c["body"] for c in posted.review_comments()] == ["one", "three"]
    assert posted.review_comments()[0]["diff_hunk"].endswith("-line 20\n+new 20")


def test_a_comment_is_posted_edited_and_deleted(either: Forge) -> None:
    pull = either.create_repo({"a.txt": LINES}).open_pull({"a.txt": CHANGED})
    hub = client(either).get_repo("octocat/train").get_pull(1)
    comment = hub.create_issue_comment("first")
    comment.edit("second")
    comment.create_reaction("eyes")
    assert [c["body"] for c in pull.comments()] == ["second"]
    assert pull.comments()[0]["reactions"]["eyes"] == 1
    comment.delete()
    assert pull.comments() == []


def test_a_check_run_collects_annotations(either: Forge) -> None:
    pull = either.create_repo({"a.txt": LINES}).open_pull({"a.txt": CHANGED})
    hub = client(either).get_repo("octocat/train")
    mark = {
        "path": "a.txt",
        "start_line": 20,
        "end_line": 20,
        "annotation_level": "warning",
        "message": "slow",
    }
    output = {"title": "Audit", "summary": "51 findings", "annotations": [mark] * 50}
    check = hub.create_check_run("Pitstop", head_sha=pull.head, status="in_progress", output=output)
    check.edit(status="completed", conclusion="neutral", output=output | {"annotations": [mark]})
    assert check.get_annotations().totalCount == 51
    assert pull.checks()[0]["conclusion"] == "neutral"


def test_threads_are_listed_and_resolved(either: Forge) -> None:
    pull = either.create_repo({"a.txt": LINES}).open_pull({"a.txt": CHANGED})
    hub = client(either)
    hub.get_repo("octocat/train").get_pull(1).create_review(
        event="COMMENT", comments=[{"path": "a.txt", "line": 20, "side": "RIGHT", "body": "x"}]
    )
    query = """
      query($owner: String!, $name: String!, $number: Int!) {
        repository(owner: $owner, name: $name) { pullRequest(number: $number) {
          reviewThreads(first: 50) {
            nodes { id isResolved isOutdated path line comments(first: 10) { nodes { body } } }
            pageInfo { hasNextPage endCursor } } } } }"""
    asked = {"owner": "octocat", "name": "train", "number": 1}
    _, answer = hub.requester.graphql_query(query, asked)
    (thread,) = answer["data"]["repository"]["pullRequest"]["reviewThreads"]["nodes"]
    assert (thread["path"], thread["line"], thread["isResolved"]) == ("a.txt", 20, False)
    assert thread["comments"]["nodes"] == [{"body": "x"}]
    wanted = {"threadId": thread["id"]}
    hub.requester.graphql_named_mutation("resolveReviewThread", wanted, "thread { isResolved }")
    assert pull.threads()[0].resolved_by.login == "github-actions[bot]"


def test_files_branches_commits_and_permissions_are_read(either: Forge) -> None:
    repo = either.create_repo({"a.txt": LINES, "b c/ü.txt": "deep\n"})
    pull = repo.open_pull({"a.txt": CHANGED}, branch="feature/x")
    repo.give_role("alice", "maintain")
    hub = client(either).get_repo("octocat/train")
    assert hub.get_contents("b c/ü.txt", ref="main").decoded_content == b"deep\n"
    assert [entry.path for entry in hub.get_contents("")] == ["a.txt", "b c"]
    assert hub.get_branch("feature/x").commit.sha == pull.head
    assert hub.compare("main", "feature/x").ahead_by == 1
    assert hub.get_collaborator_permission("alice") == "write"
    assert hub.get_collaborator_permission("octocat") == "admin"
    with pytest.raises(GithubException, match="404"):
        hub.get_contents("missing.txt")


def test_labels_references_and_pull_requests_are_written(either: Forge) -> None:
    repo = either.create_repo({"a.txt": LINES})
    pull = repo.open_pull({"a.txt": CHANGED})
    hub = client(either).get_repo("octocat/train")
    hub.get_pull(1).add_to_labels("performance")
    assert pull.labels() == ["performance"]
    hub.create_git_ref("refs/heads/pitstop/pr-1", repo.tip("change"))
    repo.commit("pitstop/pr-1", {"a.txt": LINES})
    second = hub.create_pull(base="change", head="pitstop/pr-1", title="Faster", draft=True)
    assert (second.number, second.draft, second.commits) == (2, True, 1)
    second.edit(state="closed")
    assert [found.number for found in hub.get_pulls()] == [1]


def test_long_lists_come_in_pages(either: Forge) -> None:
    repo = either.create_repo({"a.txt": LINES})
    pull = repo.open_pull({f"file{number:03}.txt": "x\n" for number in range(65)})
    hub = client(either).get_repo("octocat/train").get_pull(1)
    assert len(list(hub.get_files())) == 65
    for number in range(35):
        pull.comment(f"comment {number}")
    assert [c.body for c in hub.get_issue_comments()] == [f"comment {n}" for n in range(35)]
    pages = [e for e in either.log if e.operation == "issues/list-comments"]
    assert [e.request.query.get("page") for e in pages] == [None, "2"]
