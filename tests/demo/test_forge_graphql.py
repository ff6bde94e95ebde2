"""GraphQL: what a review bot asks, in any spelling, and the errors GitHub answers with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demo.forge import Forge
from demo.handles import ForgePull

LINES = "".join(f"line {number}\n" for number in range(1, 41))
Graph = Callable[..., dict[str, Any]]


@pytest.fixture
def graph(forge: Forge, ask: Any) -> Graph:
    def graph(query: str, token: str = "", **variables: Any) -> dict[str, Any]:
        body = {"query": query, "variables": variables}
        reply = ask("POST", forge.graphql, body, token=token)
        assert reply.status == 200
        return reply.json

    return graph


@pytest.fixture
def pull(forge: Forge, ask: Any) -> ForgePull:
    """With three threads, on lines 19, 20 and 21."""
    repo = forge.create_repo({"a.txt": LINES})
    pull = repo.open_pull({"a.txt": LINES.replace("line 20\n", "new 20\n")})
    comments = [{"path": "a.txt", "line": n, "body": f"on {n}"} for n in (19, 20, 21)]
    ask("POST", "/repos/octocat/train/pulls/1/reviews", {"event": "COMMENT", "comments": comments})
    return pull


def test_threads_come_in_pages(pull: ForgePull, graph: Graph) -> None:
    query = """
      query Threads($after: String) {
        repository(owner: "octocat", name: "train") {
          pullRequest(number: 1) {
            reviewThreads(first: 2, after: $after) {
              totalCount
              pageInfo { hasNextPage endCursor }
              nodes { ...parts }
            }
          }
        }
      }
      fragment parts on PullRequestReviewThread { line comments(last: 1) { nodes { body } } }
    """
    seen, after = [], None
    for _ in range(2):
        found = graph(query, after=after)["data"]["repository"]["pullRequest"]["reviewThreads"]
        assert found["totalCount"] == 3
        seen += [thread["line"] for thread in found["nodes"]]
        after = found["pageInfo"]["endCursor"]
    assert seen == [19, 20, 21]
    assert found["pageInfo"]["hasNextPage"] is False


def test_aliases_interfaces_and_edges(pull: ForgePull, graph: Graph) -> None:
    query = """{
      viewer { login }
      repo: repository(owner: "octocat", name: "train") {
        pull: pullRequest(number: 1) {
          author { __typename login ... on User { id } }
          reviewThreads(last: 1) {
            edges { cursor node { id comments(first: 1) { nodes {
              author { login ... on Bot { databaseId } }
              ... on Comment { body } } } } }
          }
        }
      }
    }"""
    data = graph(query)["data"]
    assert data["viewer"]["login"] == "github-actions[bot]"
    assert data["repo"]["pull"]["author"]["__typename"] == "User"
    (edge,) = data["repo"]["pull"]["reviewThreads"]["edges"]
    (comment,) = edge["node"]["comments"]["nodes"]
    assert comment["body"] == "on 21"
    assert comment["author"]["login"] == "github-actions" and comment["author"]["databaseId"]


def test_resolving_needs_contents_write_as_well(
    forge: Forge, pull: ForgePull, graph: Graph
) -> None:
    query = (
        'query { repository(owner: "octocat", name: "train") { pullRequest(number: 1) { '
        "reviewThreads(first: 1) { nodes { id viewerCanResolve } } } } }"
    )
    token = forge.token_for({"pull_requests": "write", "contents": "read"})
    found = graph(query, token=token)["data"]["repository"]["pullRequest"]["reviewThreads"]
    (thread,) = found["nodes"]
    assert thread["viewerCanResolve"] is False
    resolve = (
        "mutation($i: ResolveReviewThreadInput!) { resolveReviewThread(input: $i) "
        "{ thread { isResolved } } }"
    )
    refused = graph(resolve, token=token, i={"threadId": thread["id"]})
    assert refused["data"] == {"resolveReviewThread": None}
    (error,) = refused["errors"]
    assert error["type"] == "FORBIDDEN" and error["path"] == ["resolveReviewThread"]
    assert error["message"] == "Resource not accessible by integration"
    assert pull.threads()[0].resolved_by is None
    done = graph(resolve, i={"threadId": thread["id"]})
    assert done["data"]["resolveReviewThread"]["thread"]["isResolved"] is True


def test_a_thread_is_answered_unresolved_and_folded(pull: ForgePull, graph: Graph) -> None:
    query = (
        '{ repository(owner: "octocat", name: "train") { pullRequest(number: 1) { '
        "reviewThreads(first: 1) { nodes { id comments(first: 1) { nodes { id } } } } } } }"
    )
    found = graph(query)["data"]["repository"]["pullRequest"]["reviewThreads"]
    thread = found["nodes"][0]
    answer = graph(
        """mutation($t: ID!) { addPullRequestReviewThreadReply(
             input: {pullRequestReviewThreadId: $t, body: "yes", clientMutationId: "7"}) {
               clientMutationId comment { body replyTo { id } } } }""",
        t=thread["id"],
    )["data"]["addPullRequestReviewThreadReply"]
    comment = thread["comments"]["nodes"][0]["id"]
    assert answer == {
        "clientMutationId": "7",
        "comment": {"body": "yes", "replyTo": {"id": comment}},
    }
    folded = graph(
        """mutation($c: ID!) { minimizeComment(input: {subjectId: $c, classifier: OUTDATED}) {
             minimizedComment { isMinimized minimizedReason } } }""",
        c=comment,
    )["data"]["minimizeComment"]["minimizedComment"]
    assert folded == {"isMinimized": True, "minimizedReason": "outdated"}
    assert [c["body"] for c in pull.review_comments()][-1] == "yes"


def test_a_review_is_begun_and_submitted(pull: ForgePull, graph: Graph) -> None:
    add = """mutation($i: AddPullRequestReviewThreadInput!) {
      addPullRequestReviewThread(input: $i) { thread { line startLine subjectType } } }"""
    number = graph(
        '{ repository(owner: "octocat", name: "train") { pullRequest(number: 1) { id } } }'
    )
    identity = number["data"]["repository"]["pullRequest"]["id"]
    place = {"pullRequestId": identity, "path": "a.txt", "body": "b"}
    added = graph(add, i=place | {"line": 20, "startLine": 19})
    thread = added["data"]["addPullRequestReviewThread"]["thread"]
    assert thread == {"line": 20, "startLine": 19, "subjectType": "LINE"}
    # A place outside the diff is swallowed without a word, as on GitHub.
    assert graph(add, i=place | {"line": 3})["data"]["addPullRequestReviewThread"]["thread"] is None
    assert len(pull.review_comments()) == 3
    submit = """mutation($i: SubmitPullRequestReviewInput!) {
      submitPullRequestReview(input: $i) { pullRequestReview { state } } }"""
    done = graph(submit, i={"pullRequestId": identity, "event": "COMMENT"})
    review = done["data"]["submitPullRequestReview"]["pullRequestReview"]
    assert review["state"] == "COMMENTED" and len(pull.review_comments()) == 4


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("{ viewer { name2 } }", "Field 'name2' doesn't exist on type 'User'"),
        ("{ viewer }", "Field must have selections (field 'viewer' returns User)"),
        ("{ viewer { login { x } } }", "Selections can't be made on scalars (field 'login')"),
        ('{ node(ident: "x") { id } }', "Field 'node' doesn't accept argument 'ident'"),
        ("{ viewer { ...nothing } }", "Fragment nothing was used, but not defined"),
        ("{ viewer { login }", "Expected name, actual: end of file"),
        ("subscription { x }", "Unexpected subscription"),
        ("query($a: ID!) { node(id: $a) { id } }", "Variable $a of type ID! was provided"),
    ],
)
def test_a_bad_document_is_refused_whole(graph: Graph, query: str, message: str) -> None:
    answer = graph(query)
    assert "data" not in answer
    assert answer["errors"][0]["message"].startswith(message)


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        (
            '{ repository(owner: "octocat", name: "none") { id } }',
            "NOT_FOUND",
            "Could not resolve to a Repository with the name 'octocat/none'.",
        ),
        (
            '{ repository(owner: "octocat", name: "train") { pullRequest(number: 9) { id } } }',
            "NOT_FOUND",
            "Could not resolve to a PullRequest with the number of 9.",
        ),
        (
            '{ node(id: "PRRT_x") { id } }',
            "NOT_FOUND",
            "Could not resolve to a node with the global id of 'PRRT_x'",
        ),
        (
            '{ repository(owner: "octocat", name: "train") { pullRequest(number: 1) '
            "{ reviewThreads { totalCount } } } }",
            "MISSING_PAGINATION_BOUNDARIES",
            "You must provide a `first` or `last` value",
        ),
        (
            '{ repository(owner: "octocat", name: "train") { pullRequest(number: 1) '
            "{ comments(first: 101) { totalCount } } } }",
            "EXCESSIVE_PAGINATION",
            "Requesting 101 records on the `comments` connection exceeds",
        ),
        (
            'mutation { resolveReviewThread(input: {thread: "x"}) { thread { id } } }',
            "argumentNotAccepted",
            "InputObject 'ResolveReviewThreadInput' doesn't accept argument 'thread'",
        ),
        (
            "mutation { resolveReviewThread(input: {}) { thread { id } } }",
            "missingRequiredInputObjectAttribute",
            "Argument 'threadId' on InputObject 'ResolveReviewThreadInput' is required.",
        ),
    ],
)
def test_a_field_that_fails_is_null_with_an_error(
    pull: ForgePull, graph: Graph, query: str, kind: str, message: str
) -> None:
    answer = graph(query)
    (error,) = answer["errors"]
    assert error["type"] == kind and error["message"].startswith(message)
    assert error["locations"][0]["line"] == 1


def test_nobody_asks_without_a_token(forge: Forge, ask: Any) -> None:
    reply = ask("POST", forge.graphql, {"query": "{ viewer { login } }"}, token=None)
    assert (reply.status, reply.message) == (401, "This endpoint requires you to be authenticated.")
