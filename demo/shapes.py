"""Records as GitHub's JSON: accounts, repositories, commits and changed files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from demo.gitrepo import CommitInfo, Signature
from demo.hunks import FileDiff
from demo.state import Repository, User, node_id

Json = dict[str, Any]

# Field of a repository -> what follows its own address, from the description's field list.
REPOSITORY_LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}
NOT_COUNTED = (
    "size",
    "forks",
    "forks_count",
    "stargazers_count",
    "watchers",
    "watchers_count",
)
USER_LINKS = {
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
    "organizations_url": "/orgs",
    "repos_url": "/repos",
    "events_url": "/events{/privacy}",
    "received_events_url": "/received_events",
}


@dataclass(frozen=True, slots=True)
class Links:
    """The two addresses everything hangs from, as this client reached them."""

    html: str
    api: str

    def repo(self, repo: Repository) -> str:
        """The API address of a repository."""
        return f"{self.api}/repos/{repo.full_name}"

    def page(self, repo: Repository) -> str:
        """The web address of a repository."""
        return f"{self.html}/{repo.full_name}"


def stamp(when: float) -> str:
    """A time as GitHub writes it, to the second."""
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_or_none(when: float | None) -> str | None:
    """As `stamp`, None for what has not happened."""
    return None if when is None else stamp(when)


def user_json(links: Links, user: User) -> Json:
    """A `simple-user`."""
    url = f"{links.api}/users/{quote(user.login)}"
    return {
        "login": user.login,
        "id": user.id,
        "node_id": node_id("U", user.id),
        "avatar_url": f"{links.html}/avatars/{user.id}",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{links.html}/{quote(user.login)}",
        **{field: url + rest for field, rest in USER_LINKS.items()},
        "type": user.type,
        "site_admin": False,
    }


def profile_json(links: Links, user: User) -> Json:
    """A `public-user`; the figures are nought, since the forge keeps none."""
    return user_json(links, user) | {
        "name": user.name,
        "company": None,
        "blog": "",
        "location": None,
        "email": None,
        "hireable": None,
        "bio": None,
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": stamp(0),
        "updated_at": stamp(0),
    }


def permissions_json(role: str) -> dict[str, bool]:
    """What a role may do, as the booleans of a repository."""
    order = ("none", "read", "triage", "write", "maintain", "admin")
    level = order.index(role)
    names = {"pull": 1, "triage": 2, "push": 3, "maintain": 4, "admin": 5}
    return {name: level >= needed for name, needed in names.items()}


def repository_json(links: Links, repo: Repository, *, role: str = "read") -> Json:
    """A `repository`."""
    url, page = links.repo(repo), links.page(repo)
    open_issues = sum(issue.state == "open" for issue in repo.issues.values())
    return {
        "id": repo.id,
        "node_id": node_id("R", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
        "owner": user_json(links, repo.owner),
        "html_url": page,
        "description": None,
        "fork": repo.parent is not None,
        "url": url,
        **{field: url + rest for field, rest in REPOSITORY_LINKS.items()},
        "git_url": page.replace("http", "git", 1) + ".git",
        "ssh_url": f"git@localhost:{repo.full_name}.git",
        "clone_url": page + ".git",
        "svn_url": page,
        "mirror_url": None,
        "homepage": None,
        "language": None,
        "license": None,
        "topics": [],
        **dict.fromkeys(NOT_COUNTED, 0),
        "open_issues": open_issues,
        "open_issues_count": open_issues,
        "default_branch": repo.default_branch,
        "is_template": False,
        "has_issues": True,
        "has_projects": False,
        "has_wiki": False,
        "has_pages": False,
        "has_downloads": False,
        "has_discussions": False,
        "archived": False,
        "disabled": False,
        "visibility": "private" if repo.private else "public",
        "allow_forking": True,
        "web_commit_signoff_required": False,
        "pushed_at": stamp(repo.created),
        "created_at": stamp(repo.created),
        "updated_at": stamp(repo.created),
        "permissions": permissions_json(role),
        "custom_properties": {},
    }


def full_repository_json(links: Links, repo: Repository, *, role: str) -> Json:
    """A `full-repository`."""
    body = repository_json(links, repo, role=role) | {"subscribers_count": 0, "network_count": 0}
    if repo.parent is not None:
        parent = repository_json(links, repo.parent)
        body |= {"parent": parent, "source": parent}
    return body


def signature_json(who: Signature) -> Json:
    """A `git-user`."""
    return {"name": who.name, "email": who.email, "date": stamp(who.when)}


def verification_json() -> Json:
    """A `verification`: nothing here is signed."""
    unsigned = {"verified": False, "reason": "unsigned"}
    return unsigned | {"signature": None, "payload": None, "verified_at": None}


def git_commit_json(links: Links, repo: Repository, commit: CommitInfo) -> Json:
    """A `git-commit`, of the git data operations."""
    url, page = links.repo(repo), links.page(repo)
    return {
        "sha": commit.sha,
        "node_id": node_id("C", repo.id),
        "url": f"{url}/git/commits/{commit.sha}",
        "html_url": f"{page}/commit/{commit.sha}",
        "author": signature_json(commit.author),
        "committer": signature_json(commit.committer),
        "message": commit.message,
        "tree": {"sha": commit.tree, "url": f"{url}/git/trees/{commit.tree}"},
        "parents": [
            {
                "sha": parent,
                "url": f"{url}/git/commits/{parent}",
                "html_url": f"{page}/commit/{parent}",
            }
            for parent in commit.parents
        ],
        "verification": verification_json(),
    }


def known_json(links: Links, known: Mapping[str, User], who: Signature) -> Json | None:
    """The account behind a signature, by its e-mail address, or None."""
    user = known.get(who.email.removesuffix("@users.noreply.localhost").lower())
    return user_json(links, user) if user else None


def commit_json(
    links: Links, repo: Repository, commit: CommitInfo, known: Mapping[str, User]
) -> Json:
    """A `commit`, without files. `known` are the accounts by login."""
    url, page = f"{links.repo(repo)}/commits", links.page(repo)
    git = git_commit_json(links, repo, commit)
    return {
        "sha": commit.sha,
        "node_id": git["node_id"],
        "url": f"{url}/{commit.sha}",
        "html_url": git["html_url"],
        "comments_url": f"{url}/{commit.sha}/comments",
        "commit": {
            "url": git["url"],
            "author": git["author"],
            "committer": git["committer"],
            "message": commit.message,
            "tree": git["tree"],
            "comment_count": 0,
            "verification": git["verification"],
        },
        "author": known_json(links, known, commit.author),
        "committer": known_json(links, known, commit.committer),
        "parents": [
            {"sha": sha, "url": f"{url}/{sha}", "html_url": f"{page}/commit/{sha}"}
            for sha in commit.parents
        ],
    }


def file_json(links: Links, repo: Repository, file: FileDiff, revision: str) -> Json:
    """A `diff-entry`. The patch is left out for binary, very large and merely renamed files."""
    path = quote(file.path, errors="surrogateescape")
    body: Json = {
        "sha": file.sha,
        "filename": file.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "status": file.status,
        "additions": file.additions,
        "deletions": file.deletions,
        "changes": file.additions + file.deletions,
        "blob_url": f"{links.page(repo)}/blob/{revision}/{path}",
        "raw_url": f"{links.page(repo)}/raw/{revision}/{path}",
        "contents_url": f"{links.repo(repo)}/contents/{path}?ref={revision}",
    }
    if file.patch is not None and not file.binary:
        body["patch"] = file.patch
    if file.previous is not None:
        body["previous_filename"] = file.previous
    return body
