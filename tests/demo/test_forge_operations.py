"""Every operation that the forge serves is called, and its answer fits the description.

The requests here are good ones: both sides are checked.
"""

from __future__ import annotations

import base64
from typing import Any

from demo.forge import Forge
from demo.gitrepo import File
from demo.handles import ForgePull
from demo.routes import routes
from tests.demo.conftest import asker
from tests.demo.openapi_check import DELIBERATE, problems

REPO = "/repos/octocat/train"
LINES = "".join(f"line {number}\n" for number in range(1, 41))
APP = {"Authorization": "Bearer a.b.c"}


class Client:
    """Asks, expects success, and gives the JSON."""

    def __init__(self, ask: Any) -> None:
        self.ask = ask

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        status = more.pop("status", None)
        reply = self.ask(method, path, body, headers={DELIBERATE: ""}, **more)
        assert (reply.status == status) if status else (reply.status < 300), reply.body
        return reply.json if reply.body else None


def fresh(forge: Forge) -> ForgePull:
    files = {
        "a.txt": LINES,
        "b c/ü.txt": "deep\n",
        "link": File(b"a.txt", "120000"),
        "module": File(b"1" * 40, "160000"),
        "image.bin": b"\0\1",
    }
    repo = forge.create_repo(files)
    repo.give_role("alice", "write")
    forge.add_hook(repo, "http://127.0.0.1:9/")
    return repo.open_pull(
        {"a.txt": LINES.replace("line 20\n", "new\n"), "image.bin": None, "c.txt": "x\n"}
    )


def accounts(forge: Forge, say: Client, pull: ForgePull) -> None:
    say("GET", "/")
    assert say("GET", "/rate_limit")["rate"]["limit"] == 5000
    assert say("GET", "/user", token=forge.person("alice"))["login"] == "alice"
    say("GET", "/users/alice")
    ask = say.ask
    assert ask("GET", "/app", headers=APP).json["slug"] == "github-actions"
    installation = ask("GET", f"{REPO}/installation", headers=APP).json
    assert installation["account"]["login"] == "octocat"
    made = ask("POST", "/app/installations/4711/access_tokens", {}, headers=APP).json
    assert say("GET", REPO, token=made["token"])["full_name"] == "octocat/train"
    assert ask("GET", "/app").status == 401


def repository(forge: Forge, say: Client, pull: ForgePull) -> None:
    fork = forge.fork(pull.repo, "eve")
    assert say("GET", f"/repos/{fork.name}")["parent"]["full_name"] == "octocat/train"
    permission = say("GET", f"{REPO}/collaborators/alice/permission")
    assert (permission["permission"], permission["role_name"]) == ("write", "write")
    say("GET", f"{REPO}/collaborators/nobody/permission", status=404)
    assert [b["name"] for b in say("GET", f"{REPO}/branches")] == ["change", "main"]
    assert say("GET", f"{REPO}/branches/change")["commit"]["sha"] == pull.head
    assert len(say("GET", f"{REPO}/commits?sha=change")) == 2
    assert say("GET", f"{REPO}/commits/change")["stats"]["total"] == 3
    assert say("GET", f"{REPO}/commits/{pull.head}/pulls")[0]["number"] == 1
    compared = say("GET", f"{REPO}/compare/main...change")
    assert (compared["status"], compared["ahead_by"]) == ("ahead", 1)
    assert say("GET", f"{REPO}/compare/change...change")["status"] == "identical"
    say("POST", f"{REPO}/dispatches", {"event_type": "go", "client_payload": {"a": 1}})
    assert pull.repo.record.dispatches[0]["event_type"] == "go"


def contents(forge: Forge, say: Client, pull: ForgePull) -> None:
    file = say("GET", f"{REPO}/contents/b%20c/%C3%BC.txt")
    assert base64.b64decode(file["content"]) == b"deep\n"
    assert say("GET", f"{REPO}/contents/link")["type"] == "symlink"
    assert say("GET", f"{REPO}/contents/module")["type"] == "submodule"
    assert len(say("GET", f"{REPO}/contents/")) == 5
    assert len(say("GET", f"{REPO}/contents/b%20c?ref=change")) == 1
    say("GET", f"{REPO}/contents/none", status=404)


def git_data(forge: Forge, say: Client, pull: ForgePull) -> None:
    blob = say("POST", f"{REPO}/git/blobs", {"content": "eA==", "encoding": "base64"})["sha"]
    assert say("GET", f"{REPO}/git/blobs/{blob}")["size"] == 1
    base = say("GET", f"{REPO}/git/commits/{pull.head}")
    entries = [
        {"path": "d/e.txt", "mode": "100644", "type": "blob", "sha": blob},
        {"path": "f.sh", "mode": "100755", "type": "blob", "content": "echo\n"},
        {"path": "c.txt", "mode": "100644", "type": "blob", "sha": None},
    ]
    tree = say("POST", f"{REPO}/git/trees", {"base_tree": base["tree"]["sha"], "tree": entries})
    paths = [e["path"] for e in say("GET", f"{REPO}/git/trees/{tree['sha']}?recursive=1")["tree"]]
    assert "d/e.txt" in paths and "c.txt" not in paths and "b c/ü.txt" in paths
    wanted = {"message": "Made by hand", "tree": tree["sha"], "parents": [pull.head]}
    commit = say("POST", f"{REPO}/git/commits", wanted)
    say("POST", f"{REPO}/git/refs", {"ref": "refs/heads/x/y", "sha": pull.head})
    say("PATCH", f"{REPO}/git/refs/heads/x/y", {"sha": commit["sha"]})
    assert say("GET", f"{REPO}/git/ref/heads/x/y")["object"]["sha"] == commit["sha"]
    assert len(say("GET", f"{REPO}/git/matching-refs/heads/x")) == 1
    say("DELETE", f"{REPO}/git/refs/heads/x/y")
    say("GET", f"{REPO}/git/ref/heads/x/y", status=404)


def conversation(forge: Forge, say: Client, pull: ForgePull) -> None:
    issue = f"{REPO}/issues/1"
    assert say("GET", issue)["pull_request"]["url"].endswith("/pulls/1")
    said = say("POST", f"{issue}/comments", {"body": "hello"})
    comment = f"{REPO}/issues/comments/{said['id']}"
    say("PATCH", comment, {"body": "hello again"})
    assert say("GET", comment)["body"] == "hello again"
    assert len(say("GET", f"{issue}/comments")) == 1
    assert len(say("GET", f"{REPO}/issues/comments")) == 1
    eyes = say("POST", f"{comment}/reactions", {"content": "eyes"}, status=201)
    say("POST", f"{comment}/reactions", {"content": "eyes"}, status=200)
    assert len(say("GET", f"{comment}/reactions")) == 1
    say("DELETE", f"{comment}/reactions/{eyes['id']}")
    say("DELETE", comment)
    say("POST", f"{REPO}/labels", {"name": "slow", "color": "ff0000", "description": "d"})
    assert say("GET", f"{REPO}/labels/slow")["color"] == "ff0000"
    assert len(say("GET", f"{REPO}/labels")) == 1
    say("POST", f"{issue}/labels", {"labels": ["slow"]})
    say("POST", f"{issue}/labels", ["bare", "array"])
    say("PUT", f"{issue}/labels", {"labels": ["slow", "other"]})
    assert len(say("GET", f"{issue}/labels")) == 2
    say("DELETE", f"{issue}/labels/other")
    say("DELETE", f"{issue}/labels/other", status=404)
    assert say("PATCH", issue, {"title": "T", "labels": []})["title"] == "T"


def reviews(forge: Forge, say: Client, pull: ForgePull) -> None:
    here = f"{REPO}/pulls/1"
    comment = {"path": "a.txt", "line": 20, "body": "b"}
    begun = say("POST", f"{here}/reviews", {"comments": [comment], "body": "B"})["id"]
    say("PUT", f"{here}/reviews/{begun}", {"body": "C"})
    say("DELETE", f"{here}/reviews/{begun}")
    begun = say("POST", f"{here}/reviews", {"comments": [comment]})["id"]
    say("POST", f"{here}/reviews/{begun}/events", {"event": "REQUEST_CHANGES", "body": "B"})
    assert say("GET", f"{here}/reviews/{begun}")["state"] == "CHANGES_REQUESTED"
    dismissed = say("PUT", f"{here}/reviews/{begun}/dismissals", {"message": "m"})
    assert dismissed["state"] == "DISMISSED"
    assert len(say("GET", f"{here}/reviews/{begun}/comments")) == 1
    single = say("POST", f"{here}/comments", comment | {"commit_id": pull.head, "side": "RIGHT"})
    whole = {"path": "a.txt", "body": "f", "commit_id": pull.head, "subject_type": "file"}
    say("POST", f"{here}/comments", whole)
    say("POST", f"{here}/comments/{single['id']}/replies", {"body": "r"})
    one = f"{REPO}/pulls/comments/{single['id']}"
    say("PATCH", one, {"body": "edited"})
    assert say("GET", one)["body"] == "edited"
    given = say("POST", f"{one}/reactions", {"content": "+1"})
    assert len(say("GET", f"{one}/reactions")) == 1
    say("DELETE", f"{one}/reactions/{given['id']}")
    pull.push({"a.txt": LINES.replace("line 20\n", "newer\n")})
    lines = [c["line"] for c in say("GET", f"{here}/comments")]
    assert lines == [None, None, None, None]
    assert len(say("GET", f"{here}/reviews")) == 4
    say("DELETE", one)


def pulls(forge: Forge, say: Client, pull: ForgePull) -> None:
    here = f"{REPO}/pulls/1"
    say("GET", here)
    assert [p["number"] for p in say("GET", f"{REPO}/pulls?head=octocat:change")] == [1]
    assert say("GET", f"{REPO}/pulls?state=closed") == []
    statuses = {file["filename"]: file["status"] for file in say("GET", f"{here}/files")}
    assert statuses == {"a.txt": "modified", "c.txt": "added", "image.bin": "removed"}
    assert len(say("GET", f"{here}/commits")) == 1
    say("POST", f"{here}/requested_reviewers", {"reviewers": ["alice"]})
    say("DELETE", f"{here}/requested_reviewers", {"reviewers": ["alice"]})
    say("PATCH", here, {"title": "T", "body": "B", "state": "closed"})
    say("PATCH", here, {"state": "open"})
    fork = forge.fork(pull.repo, "eve")
    fork.commit("idea", {"z.txt": "1\n"})
    new = {"title": "From a fork", "head": "eve:idea", "base": "main", "draft": True}
    assert say("POST", f"{REPO}/pulls", new)["head"]["repo"]["full_name"] == "eve/train"
    fork.delete()
    assert say("GET", f"{REPO}/pulls/2")["head"]["repo"] is None
    say("GET", f"{here}/merge", status=404)
    assert say("PUT", f"{here}/merge", {})["merged"] is True
    say("GET", f"{here}/merge", status=204)
    assert say("GET", here)["merged_by"]["login"] == "github-actions[bot]"


def checks(forge: Forge, say: Client, pull: ForgePull) -> None:
    mark = {
        "path": "a.txt",
        "start_line": 20,
        "end_line": 20,
        "start_column": 1,
        "end_column": 3,
        "annotation_level": "failure",
        "message": "m",
        "title": "t",
        "raw_details": "r",
    }
    output = {"title": "T", "summary": "S", "text": "X", "annotations": [mark] * 2}
    made = say(
        "POST",
        f"{REPO}/check-runs",
        {
            "name": "Pitstop",
            "head_sha": pull.head,
            "status": "in_progress",
            "external_id": "7",
            "details_url": "https://localhost/run",
            "started_at": "2024-01-01T00:00:00Z",
            "output": output,
        },
    )
    run = f"{REPO}/check-runs/{made['id']}"
    done = {"conclusion": "failure", "completed_at": "2024-01-01T00:01:00Z", "output": output}
    assert say("PATCH", run, done)["output"]["annotations_count"] == 4
    assert say("GET", run)["conclusion"] == "failure"
    assert len(say("GET", f"{run}/annotations")) == 4
    listed = say("GET", f"{REPO}/commits/change/check-runs?check_name=Pitstop")
    assert listed["total_count"] == 1
    say("POST", f"{REPO}/statuses/{pull.head}", {"state": "pending", "context": "c"})
    say("POST", f"{REPO}/statuses/{pull.head}", {"state": "success", "context": "c"})
    assert len(say("GET", f"{REPO}/commits/change/statuses")) == 2
    assert say("GET", f"{REPO}/commits/change/status")["state"] == "success"


AREAS = [accounts, repository, contents, git_data, conversation, reviews, pulls, checks]


def test_every_operation_answers_as_described() -> None:
    called = set()
    for area in AREAS:
        with Forge() as forge:
            area(forge, Client(asker(forge)), fresh(forge))
            assert problems(forge.log) == []
            called |= {exchange.operation for exchange in forge.log}
    assert {route.operation for route in routes()} <= called
