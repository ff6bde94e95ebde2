"""The git data operations: references, commits, trees and blobs."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any

from demo.gitrepo import GitError
from demo.rest.call import Call, operation
from demo.shapes import Json, git_commit_json, stamp
from demo.state import node_id
from demo.wire import Answer, Refusal, not_found

Entry = dict[str, Any]


def _ref_json(call: Call, name: str, sha: str) -> Json:
    url = f"{call.links.repo(call.repo)}/git"
    kind = call.repo.git.text("cat-file", "-t", sha)
    return {
        "ref": name,
        "node_id": node_id("REF", call.repo.id),
        "url": f"{url}/{name}",
        "object": {"type": kind, "sha": sha, "url": f"{url}/{kind}s/{sha}"},
    }


def _existing(call: Call) -> tuple[str, str]:
    name = f"refs/{call.words['ref'].removeprefix('refs/')}"
    sha = call.repo.git.references(name).get(name)
    if sha is None:
        raise Refusal(422, "Reference does not exist")
    return name, sha


@operation("git/get-ref")
def get_ref(call: Call) -> Answer:
    """A reference by its full name without `refs/`."""
    try:
        name, sha = _existing(call)
    except Refusal:
        raise not_found() from None
    return Answer(200, _ref_json(call, name, sha))


@operation("git/list-matching-refs")
def matching_refs(call: Call) -> Answer:
    """References whose names begin so."""
    prefix = f"refs/{call.words['ref']}"
    found = call.repo.git.references()
    shown = [_ref_json(call, name, sha) for name, sha in found.items() if name.startswith(prefix)]
    return Answer(200, shown)


@operation("git/create-ref", needs=["contents"])
def create_ref(call: Call) -> Answer:
    """A new branch or tag."""
    name, sha = call.data["ref"], call.data["sha"]
    if not name.startswith("refs/") or name.count("/") < 2:
        raise Refusal(422, "Reference name must start with 'refs/' and have at least two slashes.")
    git = call.repo.git
    if name in git.references(name):
        raise Refusal(422, "Reference already exists")
    if git.resolve(sha, "object") != sha:
        raise Refusal(422, "Object does not exist")
    try:
        git.point(name, sha)
    except GitError:
        raise Refusal(422, f"{name} is not a valid ref name.") from None
    return Answer(201, _ref_json(call, name, sha))


@operation("git/update-ref", needs=["contents"])
def update_ref(call: Call) -> Answer:
    """Move a reference, forward only unless forced."""
    name, old = _existing(call)
    git, sha = call.repo.git, call.data["sha"]
    if git.resolve(sha, "object") != sha:
        raise Refusal(422, "Object does not exist")
    if not call.data.get("force") and not git.is_ancestor(old, sha):
        raise Refusal(422, "Update is not a fast forward")
    git.point(name, sha)
    return Answer(200, _ref_json(call, name, sha))


@operation("git/delete-ref", needs=["contents"])
def delete_ref(call: Call) -> Answer:
    """Delete a branch or tag."""
    name, _ = _existing(call)
    call.repo.git.drop(name)
    return Answer(204)


@operation("git/get-commit")
def get_git_commit(call: Call) -> Answer:
    """A commit object."""
    sha = call.repo.git.resolve(call.words["commit_sha"])
    if sha is None:
        raise not_found()
    return Answer(200, git_commit_json(call.links, call.repo, call.repo.git.commit_info(sha)))


@operation("git/create-commit", needs=["contents"])
def create_commit(call: Call) -> Answer:
    """A commit object that no reference names yet."""
    git, data = call.repo.git, call.data
    if git.resolve(data["tree"], "tree") is None:
        raise Refusal(422, "Tree SHA does not exist")
    parents: list[str] = []
    for parent in data.get("parents", ()):
        if git.resolve(parent) is None:
            raise Refusal(422, "Parent SHA does not exist or is not a commit object")
        parents.append(parent)
    login, now = call.user.login, stamp(call.world.now())
    fallback = {"name": login, "email": f"{login}@users.noreply.localhost"}
    author = {"date": now} | (data.get("author") or fallback)
    committer = author | data.get("committer", {})
    lines = [f"tree {data['tree']}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {_identity(author)}", f"committer {_identity(committer)}", ""]
    text = "\n".join([*lines, data["message"]])
    sha = git.text("hash-object", "-t", "commit", "-w", "--stdin", given=text.encode())
    return Answer(201, git_commit_json(call.links, call.repo, git.commit_info(sha)))


def _identity(who: dict[str, str]) -> str:
    when = int(datetime.fromisoformat(who["date"]).timestamp())
    return f"{who['name']} <{who['email']}> {when} +0000"


@operation("git/get-tree")
def get_tree(call: Call) -> Answer:
    """A tree, whole when `recursive` is given."""
    git, url = call.repo.git, f"{call.links.repo(call.repo)}/git"
    sha = git.resolve(call.words["tree_sha"], "tree")
    if sha is None:
        raise not_found()
    entries = []
    for entry in git.tree(sha, recursive=bool(call.request.query.get("recursive"))):
        shown: Entry = {"path": entry.path, "mode": entry.mode, "type": entry.type}
        shown |= {"sha": entry.sha, "url": f"{url}/{entry.type}s/{entry.sha}"}
        if entry.size is not None:
            shown["size"] = entry.size
        entries.append(shown)
    body = {"sha": sha, "url": f"{url}/trees/{sha}", "tree": entries, "truncated": False}
    return Answer(200, body)


@operation("git/create-tree", needs=["contents"])
def create_tree(call: Call) -> Answer:
    """A tree: entries on top of `base_tree`; an entry whose sha is null goes."""
    git = call.repo.git
    files: dict[str, Entry] = {}
    if base := call.data.get("base_tree"):
        if git.resolve(base, "tree") is None:
            raise Refusal(422, "base_tree is not a valid tree oid")
        for known in git.tree(base, recursive=True):
            if known.type != "tree":
                files[known.path] = {"mode": known.mode, "type": known.type, "sha": known.sha}
    for entry in call.data["tree"]:
        if entry.get("content") is not None:
            entry = entry | {"sha": git.hash_object(entry["content"].encode())}
        if entry.get("sha") is None:
            files.pop(entry["path"], None)
        elif entry.get("type") != "commit" and git.resolve(entry["sha"], "object") is None:
            raise Refusal(422, "tree.sha is not a valid blob")
        else:
            files[entry["path"]] = entry
    sha = _write_tree(call, files)
    shown = [{"path": e.path, "mode": e.mode, "type": e.type, "sha": e.sha} for e in git.tree(sha)]
    url = f"{call.links.repo(call.repo)}/git/trees/{sha}"
    return Answer(201, {"sha": sha, "url": url, "tree": shown, "truncated": False})


def _write_tree(call: Call, files: dict[str, Entry]) -> str:
    """Trees from the leaves up: one `mktree` a folder."""
    git = call.repo.git
    here: list[bytes] = []
    below: dict[str, dict[str, Entry]] = {}
    for path, entry in files.items():
        folder, slash, rest = path.partition("/")
        if slash:
            below.setdefault(folder, {})[rest] = entry
        else:
            kind = entry.get("type") or "blob"
            here.append(f"{entry.get('mode', '100644')} {kind} {entry['sha']}\t{path}".encode())
    for folder, inside in below.items():
        here.append(f"040000 tree {_write_tree(call, inside)}\t{folder}".encode())
    return git.text("mktree", "-z", given=b"".join(line + b"\0" for line in here))


@operation("git/get-blob")
def get_blob(call: Call) -> Answer:
    """A blob in base64."""
    git, sha = call.repo.git, call.words["file_sha"]
    if git.resolve(sha, "blob") is None:
        raise not_found()
    data = git.blob(sha)
    return Answer(
        200,
        _blob_address(call, sha)
        | {
            "content": base64.encodebytes(data).decode(),
            "encoding": "base64",
            "size": len(data),
            "node_id": node_id("B", call.repo.id),
        },
    )


@operation("git/create-blob", needs=["contents"])
def create_blob(call: Call) -> Answer:
    """A blob from UTF-8 text or base64."""
    text = call.data["content"]
    try:
        encoded = call.data.get("encoding") == "base64"
        data = base64.b64decode(text, validate=True) if encoded else text.encode()
    except binascii.Error:
        raise Refusal(422, "content is not valid Base64") from None
    return Answer(201, _blob_address(call, call.repo.git.hash_object(data)))


def _blob_address(call: Call, sha: str) -> Json:
    return {"sha": sha, "url": f"{call.links.repo(call.repo)}/git/blobs/{sha}"}
