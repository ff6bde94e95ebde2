"""Records as GitHub's JSON: pull requests, reviews and review comments."""

from __future__ import annotations

from demo.pulls import Comparison
from demo.shapes import Json, Links, repository_json, stamp, stamp_or_none, user_json
from demo.shapes_issue import association, label_json, rollup_json
from demo.state import Issue, Pull, Repository, Review, ReviewComment, Thread, User, node_id


def pull_simple_json(links: Links, repo: Repository, issue: Issue, pull: Pull) -> Json:
    """A `pull-request-simple`, as lists and webhooks hold it."""
    addresses = _addresses(links, repo, issue, pull)
    page = addresses["html"]
    return {
        "url": addresses["self"],
        "id": issue.id,
        "node_id": node_id("PR", issue.id),
        "html_url": page,
        "diff_url": page + ".diff",
        "patch_url": page + ".patch",
        "issue_url": addresses["issue"],
        "commits_url": addresses["commits"],
        "review_comments_url": addresses["review_comments"],
        "review_comment_url": addresses["review_comment"],
        "comments_url": addresses["comments"],
        "statuses_url": addresses["statuses"],
        "number": issue.number,
        "state": issue.state,
        "locked": False,
        "title": issue.title,
        "user": user_json(links, issue.user),
        "body": issue.body,
        "labels": [label_json(links, repo, label) for label in issue.labels],
        "milestone": None,
        "active_lock_reason": None,
        "created_at": stamp(issue.created),
        "updated_at": stamp(issue.updated),
        "closed_at": stamp_or_none(issue.closed),
        "merged_at": stamp_or_none(pull.merged),
        "merge_commit_sha": pull.merge_commit,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [user_json(links, user) for user in pull.reviewers],
        "requested_teams": [],
        "head": _end(links, pull.head_repo, pull.head_owner, pull.head_ref, pull.head_sha),
        "base": _end(links, repo, repo.owner, pull.base_ref, pull.base_sha),
        "_links": {name: {"href": address} for name, address in addresses.items()},
        "author_association": association(repo, issue.user),
        "auto_merge": None,
        "draft": pull.draft,
    }


def _addresses(links: Links, repo: Repository, issue: Issue, pull: Pull) -> dict[str, str]:
    url = f"{links.repo(repo)}/pulls/{issue.number}"
    issue_url = f"{links.repo(repo)}/issues/{issue.number}"
    return {
        "self": url,
        "html": f"{links.page(repo)}/pull/{issue.number}",
        "issue": issue_url,
        "comments": issue_url + "/comments",
        "review_comments": url + "/comments",
        "review_comment": f"{links.repo(repo)}/pulls/comments{{/number}}",
        "commits": url + "/commits",
        "statuses": f"{links.repo(repo)}/statuses/{pull.head_sha}",
    }


def pull_json(
    links: Links, repo: Repository, issue: Issue, pull: Pull, comparison: Comparison
) -> Json:
    """A `pull-request`."""
    open_now = issue.state == "open"
    merged_by = user_json(links, pull.merged_by) if pull.merged_by else None
    return pull_simple_json(links, repo, issue, pull) | {
        "merged": pull.merged is not None,
        "mergeable": True if open_now else None,
        "rebaseable": True if open_now else None,
        "mergeable_state": ("draft" if pull.draft else "clean") if open_now else "unknown",
        "merged_by": merged_by,
        "comments": len(issue.comments),
        "review_comments": len(pull.review_comments()),
        "maintainer_can_modify": False,
        "commits": len(comparison.commits),
        "additions": sum(file.additions for file in comparison.files),
        "deletions": sum(file.deletions for file in comparison.files),
        "changed_files": len(comparison.files),
    }


def review_json(links: Links, repo: Repository, issue: Issue, review: Review) -> Json:
    """A `pull-request-review`; a pending one has no `submitted_at`."""
    url = f"{links.repo(repo)}/pulls/{issue.number}"
    page = f"{links.page(repo)}/pull/{issue.number}#pullrequestreview-{review.id}"
    body: Json = {
        "id": review.id,
        "node_id": node_id("PRR", review.id),
        "user": user_json(links, review.user),
        "body": review.body,
        "state": review.state,
        "html_url": page,
        "pull_request_url": url,
        "author_association": association(repo, review.user),
        "_links": {"html": {"href": page}, "pull_request": {"href": url}},
        "commit_id": review.commit,
    }
    if review.submitted is not None:
        body["submitted_at"] = stamp(review.submitted)
    return body


def review_comment_json(
    links: Links, repo: Repository, issue: Issue, thread: Thread, comment: ReviewComment
) -> Json:
    """A `pull-request-review-comment`. Outdated: `line` and `position` are null."""
    anchor = thread.anchor
    url = f"{links.repo(repo)}/pulls/comments/{comment.id}"
    page = f"{links.page(repo)}/pull/{issue.number}#discussion_r{comment.id}"
    pull_url = f"{links.repo(repo)}/pulls/{issue.number}"
    body: Json = {
        "url": url,
        "pull_request_review_id": comment.review,
        "id": comment.id,
        "node_id": node_id("PRRC", comment.id),
        "diff_hunk": anchor.diff_hunk,
        "path": anchor.path,
        "commit_id": anchor.commit,
        "original_commit_id": anchor.original_commit,
        "user": user_json(links, comment.user),
        "body": comment.body,
        "created_at": stamp(comment.created),
        "updated_at": stamp(comment.updated),
        "html_url": page,
        "pull_request_url": pull_url,
        "author_association": association(repo, comment.user),
        "_links": {
            "self": {"href": url},
            "html": {"href": page},
            "pull_request": {"href": pull_url},
        },
        "reactions": rollup_json(url, comment.reactions),
        "start_line": anchor.start_line,
        "original_start_line": anchor.original_start_line,
        "start_side": anchor.start_side,
        "line": anchor.line,
        "original_line": anchor.original_line,
        "side": anchor.side,
        "original_position": anchor.original_position,
        "position": anchor.position,
        "subject_type": anchor.subject,
    }
    if comment.reply_to is not None:
        body["in_reply_to_id"] = comment.reply_to
    return body


def _end(links: Links, repo: Repository | None, owner: User, ref: str, sha: str) -> Json:
    return {
        "label": f"{owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": user_json(links, owner),
        "repo": repository_json(links, repo) if repo else None,
    }
