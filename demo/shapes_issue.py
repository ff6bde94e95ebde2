"""Records as GitHub's JSON: labels, comments, issues, check runs and statuses."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from demo.shapes import Json, Links, stamp, stamp_or_none, user_json
from demo.state import (
    CheckRun,
    Comment,
    Issue,
    Label,
    Reaction,
    Repository,
    Status,
    User,
    node_id,
)

REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


def label_json(links: Links, repo: Repository, label: Label) -> Json:
    """A `label`."""
    return {
        "id": label.id,
        "node_id": node_id("LA", label.id),
        "url": f"{links.repo(repo)}/labels/{quote(label.name, safe='')}",
        "name": label.name,
        "color": label.color,
        "default": False,
        "description": label.description or "",
    }


def rollup_json(url: str, reactions: Iterable[Reaction]) -> Json:
    """A `reaction-rollup`: how many of each emoji."""
    given = [reaction.content for reaction in reactions]
    counts = {content: given.count(content) for content in REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(given), **counts}


def reaction_json(links: Links, reaction: Reaction) -> Json:
    """A `reaction`."""
    return {
        "id": reaction.id,
        "node_id": node_id("REA", reaction.id),
        "user": user_json(links, reaction.user),
        "content": reaction.content,
        "created_at": stamp(reaction.created),
    }


def association(repo: Repository, user: User) -> str:
    """How the author stands to the repository."""
    if user is repo.owner:
        return "OWNER"
    return "COLLABORATOR" if user.login.lower() in repo.roles else "NONE"


def app_json(links: Links) -> Json:
    """The GitHub App that the forge's bots act for: GitHub Actions itself."""
    owner = User(9919, "github", "Organization")
    return {
        "id": 15368,
        "slug": "github-actions",
        "node_id": node_id("A", 15368),
        "owner": user_json(links, owner),
        "name": "GitHub Actions",
        "description": "Automate your workflow from idea to production",
        "external_url": "https://help.github.com/en/actions",
        "html_url": f"{links.html}/apps/github-actions",
        "created_at": stamp(0),
        "updated_at": stamp(0),
        "permissions": {"checks": "write", "contents": "write", "metadata": "read"},
        "events": [],
    }


def comment_json(links: Links, repo: Repository, issue: Issue, comment: Comment) -> Json:
    """An `issue-comment`."""
    kind = "pull" if issue.pull else "issues"
    url = f"{links.repo(repo)}/issues/comments/{comment.id}"
    return {
        "id": comment.id,
        "node_id": node_id("IC", comment.id),
        "url": url,
        "html_url": f"{links.page(repo)}/{kind}/{issue.number}#issuecomment-{comment.id}",
        "issue_url": f"{links.repo(repo)}/issues/{issue.number}",
        "body": comment.body,
        "user": user_json(links, comment.user),
        "created_at": stamp(comment.created),
        "updated_at": stamp(comment.updated),
        "author_association": association(repo, comment.user),
        "performed_via_github_app": app_json(links) if comment.by_app else None,
        "reactions": rollup_json(url, comment.reactions),
    }


def issue_json(links: Links, repo: Repository, issue: Issue) -> Json:
    """An `issue`."""
    url = f"{links.repo(repo)}/issues/{issue.number}"
    kind = "pull" if issue.pull else "issues"
    body = {
        "id": issue.id,
        "node_id": node_id("I", issue.id),
        "url": url,
        "repository_url": links.repo(repo),
        "labels_url": url + "/labels{/name}",
        "comments_url": url + "/comments",
        "events_url": url + "/events",
        "timeline_url": url + "/timeline",
        "html_url": f"{links.page(repo)}/{kind}/{issue.number}",
        "number": issue.number,
        "state": issue.state,
        "state_reason": None,
        "title": issue.title,
        "body": issue.body,
        "user": user_json(links, issue.user),
        "labels": [label_json(links, repo, label) for label in issue.labels],
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "locked": False,
        "active_lock_reason": None,
        "comments": len(issue.comments),
        "closed_at": stamp_or_none(issue.closed),
        "created_at": stamp(issue.created),
        "updated_at": stamp(issue.updated),
        "author_association": association(repo, issue.user),
        "performed_via_github_app": None,
        "reactions": rollup_json(url, ()),
    }
    if issue.pull:
        page = f"{links.page(repo)}/pull/{issue.number}"
        body["draft"] = issue.pull.draft
        body["pull_request"] = {
            "url": f"{links.repo(repo)}/pulls/{issue.number}",
            "html_url": page,
            "diff_url": page + ".diff",
            "patch_url": page + ".patch",
            "merged_at": stamp_or_none(issue.pull.merged),
        }
    return body


def check_json(links: Links, repo: Repository, check: CheckRun) -> Json:
    """A `check-run`."""
    url = f"{links.repo(repo)}/check-runs/{check.id}"
    page = f"{links.page(repo)}/runs/{check.id}"
    return {
        "id": check.id,
        "name": check.name,
        "node_id": node_id("CR", check.id),
        "head_sha": check.head_sha,
        "external_id": check.external_id or "",
        "url": url,
        "html_url": page,
        "details_url": check.details_url or page,
        "status": check.status,
        "conclusion": check.conclusion,
        "started_at": stamp_or_none(check.started),
        "completed_at": stamp_or_none(check.completed),
        "output": {
            "title": check.title,
            "summary": check.summary,
            "text": check.text,
            "annotations_count": len(check.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": repo.id},
        "app": app_json(links),
        "pull_requests": [
            {
                "id": issue.id,
                "number": issue.number,
                "url": f"{links.repo(repo)}/pulls/{issue.number}",
                "head": _minimal_end(links, pull.head_repo or repo, pull.head_ref, pull.head_sha),
                "base": _minimal_end(links, repo, pull.base_ref, pull.base_sha),
            }
            for issue, pull in repo.pulls()
            if pull.head_sha == check.head_sha and pull.head_repo is repo
        ],
    }


def _minimal_end(links: Links, repo: Repository, ref: str, sha: str) -> Json:
    about = {"id": repo.id, "url": links.repo(repo), "name": repo.name}
    return {"ref": ref, "sha": sha, "repo": about}


def status_json(links: Links, repo: Repository, status: Status) -> Json:
    """A `status`."""
    return {
        "url": f"{links.repo(repo)}/statuses/{status.sha}",
        "avatar_url": f"{links.html}/avatars/{status.creator.id}",
        "id": status.id,
        "node_id": node_id("SC", status.id),
        "state": status.state,
        "description": status.description,
        "target_url": status.target_url,
        "context": status.context,
        "created_at": stamp(status.created),
        "updated_at": stamp(status.created),
        "creator": user_json(links, status.creator),
    }
