"""The payloads of webhooks, which are also the event files of workflow runs."""

from __future__ import annotations

from collections.abc import Iterator

from demo.pulls import compare_pull
from demo.shapes import Json, Links, repository_json, user_json
from demo.shapes_issue import comment_json, issue_json
from demo.shapes_pull import pull_json
from demo.state import Hook, Issue, Repository, User, World
from demo.webhooks import Event


def payloads(world: World, links: Links, event: Event) -> Iterator[tuple[Hook, Json]]:
    """What each hook of the repository hears of an event."""
    hooks = [hook for hook in event.repo.hooks if event.name in hook.events]
    if not hooks:
        return
    payload = payload_of(links, event)
    for hook in hooks:
        yield hook, payload


def payload_of(links: Links, event: Event) -> Json:
    """The payload of an event."""
    issue = event.about["issue"]
    if event.name == "pull_request":
        before = event.about.get("before")
        return pull_payload(links, event.repo, issue, event.action, event.sender, before)
    body = _common(links, event.repo, event.action, event.sender)
    body["issue"] = issue_json(links, event.repo, issue)
    body["comment"] = comment_json(links, event.repo, issue, event.about["comment"])
    if event.action == "edited":
        body["changes"] = {}
    return body


def pull_payload(
    links: Links,
    repo: Repository,
    issue: Issue,
    action: str,
    sender: User,
    before: str | None = None,
) -> Json:
    """The payload of a `pull_request` event."""
    if issue.pull is None:
        raise ValueError(f"#{issue.number} is no pull request")
    body = _common(links, repo, action, sender)
    body["number"] = issue.number
    comparison = compare_pull(repo, issue.pull)
    body["pull_request"] = pull_json(links, repo, issue, issue.pull, comparison)
    if before is not None:
        body |= {"before": before, "after": issue.pull.head_sha}
    return body


def _common(links: Links, repo: Repository, action: str, sender: User) -> Json:
    return {
        "action": action,
        "repository": repository_json(links, repo),
        "sender": user_json(links, sender),
        "installation": {"id": 4711, "node_id": "MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9uNDcxMQ=="},
    }
