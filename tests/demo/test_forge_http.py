"""What every answer has in common: headers, pages of lists, media types, prefixes, conditions."""

from __future__ import annotations

import re
from typing import Any

import pytest

from demo.forge import Forge
from demo.handles import ForgePull
from tests.demo.conftest import asker

PULL = "/repos/octocat/train/pulls/1"


@pytest.fixture
def pull(forge: Forge) -> ForgePull:
    return forge.create_repo({"a": "1\n"}).open_pull({"a": "2\n", "b": "漢\r\n"})


def test_headers_of_an_answer(forge: Forge, pull: ForgePull, ask: Any) -> None:
    headers = ask("GET", PULL).headers
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["x-ratelimit-limit"] == "5000"
    assert headers["x-ratelimit-resource"] == "core"
    assert headers["x-github-request-id"]
    graph = ask("POST", forge.graphql, {"query": "{ viewer { login } }"}).headers
    assert graph["x-ratelimit-resource"] == "graphql"


def test_addresses_lead_back_the_way_the_client_came(pull: ForgePull, ask: Any) -> None:
    plain, prefixed = ask("GET", PULL).json, ask("GET", f"/api/v3{PULL}").json
    assert "/api/v3/" not in plain["url"]
    assert "/api/v3/repos/" in prefixed["url"] and "/api/v3" not in prefixed["html_url"]
    for address in (plain["url"], prefixed["url"], plain["issue_url"], plain["commits_url"]):
        assert ask("GET", address).status == 200


def test_an_enterprise_server_has_its_api_in_one_place(enterprise_forge: Forge) -> None:
    enterprise_forge.create_repo({"a": "1\n"}).open_pull({"a": "2\n"})
    ask = asker(enterprise_forge)
    assert ask("GET", PULL).status == 200
    assert ask("GET", enterprise_forge.url + PULL).status == 404
    query = {"query": "{ viewer { login } }"}
    assert ask("POST", f"{enterprise_forge.url}/api/graphql", query).status == 200
    assert ask("POST", f"{enterprise_forge.url}/graphql", query).status == 404


def test_links_lead_through_a_list(pull: ForgePull, ask: Any) -> None:
    for number in range(5):
        pull.comment(f"{number}")
    seen, address = [], "/repos/octocat/train/issues/1/comments?per_page=2"
    while address:
        reply = ask("GET", address)
        seen += [comment["body"] for comment in reply.json]
        found = re.findall(r'<([^>]+)>; rel="(\w+)"', reply.headers["link"] or "")
        links = {name: target for target, name in found}
        address = links.get("next")
    assert seen == ["0", "1", "2", "3", "4"]
    assert set(links) == {"prev", "first"}
    past = ask("GET", "/repos/octocat/train/issues/1/comments?per_page=2&page=9")
    assert past.json == []


@pytest.mark.parametrize("size", ["0", "-1", "x", "1000"])
def test_odd_page_sizes(pull: ForgePull, ask: Any, size: str) -> None:
    assert ask("GET", f"{PULL}/files?per_page={size}").status == 200


def test_what_has_not_changed_is_not_sent_again(pull: ForgePull, ask: Any) -> None:
    first = ask("GET", PULL)
    again = ask("GET", PULL, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    pull.push({"a": "3\n"})
    assert ask("GET", PULL, headers={"If-None-Match": first.headers["etag"]}).status == 200


def test_head_has_headers_only(pull: ForgePull, ask: Any) -> None:
    reply = ask("HEAD", PULL)
    assert reply.status == 200 and reply.body == b"" and int(reply.headers["content-length"]) > 0


def test_a_pull_request_as_diff_and_patch(pull: ForgePull, ask: Any) -> None:
    diff = ask("GET", PULL, headers={"Accept": "application/vnd.github.v3.diff"})
    assert diff.body.startswith(b"diff --git a/a b/a") and "漢\r\n".encode() in diff.body
    assert diff.headers["content-type"].startswith("application/vnd.github.diff")
    patch = ask("GET", PULL, headers={"Accept": "application/vnd.github.patch"})
    assert patch.body.startswith(b"From ")


def test_a_very_large_diff_is_refused(forge: Forge, ask: Any) -> None:
    repo = forge.create_repo({"a": "1\n"})
    repo.open_pull({"b": "x\n" * 20_001})
    reply = ask("GET", PULL, headers={"Accept": "application/vnd.github.diff"})
    assert (reply.status, reply.errors[0]["code"]) == (406, "too_large")
    (file,) = ask("GET", f"{PULL}/files").json
    assert "patch" not in file and file["additions"] == 20_001


def test_raw_contents_and_a_bare_sha(pull: ForgePull, ask: Any) -> None:
    raw = ask(
        "GET",
        "/repos/octocat/train/contents/b?ref=change",
        headers={"Accept": "application/vnd.github.raw"},
    )
    assert raw.body.decode() == "漢\r\n"
    sha = ask(
        "GET",
        "/repos/octocat/train/commits/change",
        headers={"Accept": "application/vnd.github.sha"},
    )
    assert sha.body.decode() == pull.head


def test_a_repository_may_forbid_bots_to_open_pull_requests(
    forge: Forge, pull: ForgePull, ask: Any
) -> None:
    pull.repo.record.bots_open_pulls = False
    pull.repo.commit("other", {"a": "5\n"})
    new = {"title": "t", "head": "other", "base": "main"}
    reply = ask("POST", "/repos/octocat/train/pulls", new)
    sentence = "GitHub Actions is not permitted to create or approve pull requests."
    assert (reply.status, reply.message) == (403, sentence)
    person = forge.person("octocat")
    assert ask("POST", "/repos/octocat/train/pulls", new, token=person).status == 201


def test_a_bot_has_no_permission_level(pull: ForgePull, ask: Any) -> None:
    path = "/repos/octocat/train/collaborators/github-actions%5Bbot%5D/permission"
    reply = ask("GET", path)
    assert reply.status == 404 and "is not a user" in reply.message
