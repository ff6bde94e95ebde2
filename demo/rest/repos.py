"""Repositories: what they are, their branches, commits, comparisons and contents."""

from __future__ import annotations

import base64
import re
from urllib.parse import quote

from demo.gitrepo import GitError, TreeEntry
from demo.limits import DIFF_FILES, LISTED_COMMITS
from demo.pulls import compare
from demo.rest.call import Call, operation
from demo.rest.pulls import as_text, text_media
from demo.shapes import (
    Json,
    file_json,
    full_repository_json,
    permissions_json,
    user_json,
)
from demo.shapes_pull import pull_simple_json
from demo.wire import Answer, Refusal, not_found

INLINE_CONTENT = 1_000_000
LARGEST_CONTENT = 100_000_000
# The permission of the older scheme that each role is shown as.
OLDER_NAMES = {"triage": "read", "maintain": "write"}


@operation("repos/get")
def get_repo(call: Call) -> Answer:
    """A repository."""
    return Answer(200, full_repository_json(call.links, call.repo, role=call.role))


@operation("repos/get-collaborator-permission-level")
def get_permission(call: Call) -> Answer:
    """What a person may do here: `none` for a stranger to a private repository."""
    if call.token is None:
        raise Refusal(401, "Requires authentication")
    user = call.world.users.get(call.words["username"].lower())
    if user is None or user.type == "Bot":
        raise Refusal(404, f"{call.words['username']} is not a user")
    role = call.repo.role(user)
    permission = OLDER_NAMES.get(role, role)
    about = {"permissions": permissions_json(role), "role_name": role}
    shown = user_json(call.links, user) | about
    return Answer(200, {"permission": permission, "role_name": role, "user": shown})


@operation("repos/create-dispatch-event", needs=["contents"])
def dispatch(call: Call) -> Answer:
    """Note a repository_dispatch."""
    payload = call.data.get("client_payload", {})
    if len(call.data["event_type"]) > 100 or len(payload) > 10:
        raise Refusal(422, "Invalid request.\n\nNo more than 10 properties are allowed.")
    call.repo.dispatches.append(call.data)
    return Answer(204)


# Branches and commits


@operation("repos/list-branches")
def list_branches(call: Call) -> Answer:
    """The branches, by name."""
    repo = call.repo
    tips = [(name[11:], sha) for name, sha in repo.git.references("refs/heads/").items()]

    def shown(branch: tuple[str, str]) -> Json:
        name, sha = branch
        commit = {"sha": sha, "url": f"{call.links.repo(repo)}/commits/{sha}"}
        return {"name": name, "commit": commit, "protected": False}

    return call.page(tips, shown)


@operation("repos/get-branch")
def get_branch(call: Call) -> Answer:
    """A branch with its tip."""
    repo, name = call.repo, call.words["branch"]
    sha = repo.git.branch(name)
    if sha is None:
        raise Refusal(404, "Branch not found")
    url = f"{call.links.repo(repo)}/branches/{quote(name)}"
    checks: Json = {"enforcement_level": "off", "contexts": [], "checks": []}
    return Answer(
        200,
        {
            "name": name,
            "commit": call.commit_json(sha),
            "_links": {"self": url, "html": f"{call.links.page(repo)}/tree/{quote(name)}"},
            "protected": False,
            "protection": {"enabled": False, "required_status_checks": checks},
            "protection_url": f"{url}/protection",
        },
    )


@operation("repos/list-commits")
def list_commits(call: Call) -> Answer:
    """The history of a branch or path, newest first."""
    repo, query = call.repo, call.request.query
    start = call.commit(query.get("sha") or repo.default_branch)
    history = repo.git.history(start, path=query.get("path"))
    return call.page(history, lambda sha: call.commit_json(sha))


@operation("repos/get-commit")
def get_commit(call: Call) -> Answer:
    """A commit with the files it changed against its first parent; or only its SHA."""
    repo, sha = call.repo, call.commit(call.words["ref"])
    if "application/vnd.github.sha" in call.request.accept:
        return Answer(200, sha, {"content-type": "application/vnd.github.sha; charset=utf-8"})
    commit = repo.git.commit_info(sha)
    parent = commit.parents[0] if commit.parents else None
    if parent and (kind := text_media(call.request.accept)):
        return as_text(repo, parent, sha, kind)
    files = compare(repo, parent, sha).files if parent else ()
    stats = {
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
    }
    body = call.commit_json(sha)
    body["stats"] = stats | {"total": sum(stats.values())}
    body["files"] = [file_json(call.links, repo, file, sha) for file in files[:DIFF_FILES]]
    return Answer(200, body)


@operation("repos/list-pull-requests-associated-with-commit")
def list_pulls_of_commit(call: Call) -> Answer:
    """The pull requests that hold a commit."""
    repo, sha = call.repo, call.commit(call.words["commit_sha"])
    found = [
        (issue, pull)
        for issue, pull in repo.pulls()
        if sha in compare(repo, pull.base_sha, pull.head_sha).commits
    ]
    return call.page(found, lambda pair: pull_simple_json(call.links, repo, *pair))


@operation("repos/compare-commits-with-basehead")
def compare_commits(call: Call) -> Answer:
    """`base...head`, either of which may be `owner:branch` of a fork."""
    repo = call.repo
    base_name, dots, head_name = call.words["basehead"].partition("...")
    if not dots:
        raise not_found()
    base, head = _end(call, base_name), _end(call, head_name)
    if kind := text_media(call.request.accept):
        return as_text(repo, base, head, kind)
    comparison = compare(repo, base, head)
    behind = len(repo.git.history(base, f"^{head}"))
    ahead = len(comparison.commits)
    status = {(0, 0): "identical", (1, 0): "ahead", (0, 1): "behind"}
    page = f"{call.links.page(repo)}/compare/{quote(call.words['basehead'])}"

    def shown(sha: str) -> Json:
        return call.commit_json(sha)

    commits = comparison.commits[-LISTED_COMMITS:]
    return Answer(
        200,
        {
            "url": f"{call.links.repo(repo)}/compare/{quote(call.words['basehead'])}",
            "html_url": page,
            "permalink_url": page,
            "diff_url": page + ".diff",
            "patch_url": page + ".patch",
            "base_commit": shown(base),
            "merge_base_commit": shown(comparison.merge_base),
            "status": status.get((min(ahead, 1), min(behind, 1)), "diverged"),
            "ahead_by": ahead,
            "behind_by": behind,
            "total_commits": ahead,
            "commits": [shown(sha) for sha in commits],
            "files": [
                file_json(call.links, repo, file, head) for file in comparison.files[:DIFF_FILES]
            ],
        },
    )


def _end(call: Call, name: str) -> str:
    owner, _, ref = name.rpartition(":")
    repo = call.repo
    if owner and owner.lower() != repo.owner.login.lower():
        fork = call.world.repositories.get(f"{owner}/{repo.name}".lower())
        tip = fork.git.branch(ref) if fork else None
        if fork is None or tip is None:
            raise not_found()
        repo.git.fetch(fork.git, tip)
        return tip
    for candidate in (f"refs/heads/{ref}", ref, f"refs/tags/{ref}"):
        if sha := repo.git.resolve(candidate):
            return sha
    raise not_found()


# Contents


@operation("repos/get-content")
def get_content(call: Call) -> Answer:
    """A file, a folder, a symbolic link or a submodule."""
    repo, path = call.repo, call.words["path"].strip("/")
    ref = call.request.query.get("ref") or repo.default_branch
    try:
        revision = call.commit(ref)
    except Refusal:
        raise Refusal(404, f"No commit found for the ref {ref}") from None
    if ".." in path.split("/"):
        raise Refusal(400, "path contains a malformed path component")
    try:
        entries = {entry.path: entry for entry in repo.git.tree(revision, recursive=True)}
    except GitError:
        raise not_found() from None
    if path and path not in entries:
        raise not_found()
    entry = entries.get(path)
    if entry is None or entry.type == "tree":
        prefix = f"{path}/" if path else ""
        inside = [e for e in entries.values() if e.path.rpartition("/")[0] == path]
        shown = [_entry_json(call, e, ref) for e in inside if e.path.startswith(prefix)]
        if "application/vnd.github.object" in call.request.accept:
            root = entry or TreeEntry("040000", "tree", repo.git.commit_info(revision).tree, 0, "")
            return Answer(200, _entry_json(call, root, ref) | {"entries": shown})
        return Answer(200, shown)
    return _file(call, entry, ref)


def _file(call: Call, entry: TreeEntry, ref: str) -> Answer:
    body = _entry_json(call, entry, ref)
    if entry.mode == "160000":
        return Answer(200, body | {"type": "submodule", "submodule_git_url": body["git_url"]})
    data = call.repo.git.blob(entry.sha)
    if re.search(r"application/vnd\.github\.(v3\.)?raw", call.request.accept):
        return Answer(200, data, {"content-type": "application/vnd.github.raw; charset=utf-8"})
    if entry.mode == "120000":
        return Answer(200, body | {"target": data.decode("utf-8", "replace")})
    if len(data) > LARGEST_CONTENT:
        error = {"resource": "Blob", "field": "data", "code": "too_large"}
        raise Refusal(403, "This API returns blobs up to 100 MB in size.", errors=[error])
    if len(data) > INLINE_CONTENT:
        return Answer(200, body | {"content": "", "encoding": "none"})
    content = base64.encodebytes(data).decode()
    return Answer(200, body | {"content": content, "encoding": "base64"})


KINDS = {"040000": "dir", "120000": "symlink", "160000": "file"}


def _entry_json(call: Call, entry: TreeEntry, ref: str) -> Json:
    repo = call.repo
    path = quote(entry.path, errors="surrogateescape")
    url = f"{call.links.repo(repo)}/contents/{path}?ref={quote(ref)}"
    folder = entry.type == "tree"
    page = f"{call.links.page(repo)}/{'tree' if folder else 'blob'}/{quote(ref)}/{path}"
    kind = "trees" if folder else "blobs"
    git_url = f"{call.links.repo(repo)}/git/{kind}/{entry.sha}"
    raw = f"{call.links.page(repo)}/raw/{quote(ref)}/{path}"
    return {
        "type": KINDS.get(entry.mode, "file"),
        "size": entry.size or 0,
        "name": entry.path.rpartition("/")[2],
        "path": entry.path,
        "sha": entry.sha,
        "url": url,
        "git_url": git_url,
        "html_url": page,
        "download_url": None if folder else raw,
        "_links": {"self": url, "git": git_url, "html": page},
    }
