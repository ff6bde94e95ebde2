"""Pull requests: reading, opening, changing, merging."""

from __future__ import annotations

import re

from demo import limits
from demo.gitrepo import GitError
from demo.pulls import compare, compare_pull, open_pull
from demo.rest.call import Call, operation
from demo.shapes import file_json
from demo.shapes_pull import pull_json, pull_simple_json
from demo.state import Issue, Pull, Repository
from demo.wire import Answer, Refusal, validation_failed

TOO_LONG = f"Sorry, the diff exceeded the maximum number of lines ({limits.DIFF_LINES})"
TOO_MANY = f"Sorry, the diff exceeded the maximum number of files ({limits.DIFF_FILES})."


def _shown(call: Call, issue: Issue, pull: Pull, status: int = 200) -> Answer:
    comparison = compare_pull(call.repo, pull)
    return Answer(status, pull_json(call.links, call.repo, issue, pull, comparison))


def text_media(accept: str) -> str | None:
    """`diff` or `patch` when the client asked for one of these instead of JSON."""
    match = re.search(r"application/vnd\.github\.(?:v3\.)?(diff|patch)", accept)
    return match[1] if match else None


def as_text(repo: Repository, old: str, new: str, kind: str) -> Answer:
    """A comparison as a diff or a patch. Raises Refusal (406) where GitHub gives up."""
    files = compare(repo, old, new).files
    lines = sum(len(hunk.lines) + 1 for file in files for hunk in file.hunks)
    if lines > limits.DIFF_LINES or len(files) > limits.DIFF_FILES:
        error = {"resource": "PullRequest", "field": "diff", "code": "too_large"}
        raise Refusal(406, TOO_LONG if lines > limits.DIFF_LINES else TOO_MANY, errors=[error])
    command = ("diff", "--full-index") if kind == "diff" else ("format-patch", "--stdout")
    dots = "..." if kind == "diff" else ".."
    text = repo.git.run(*command, "--no-color", "--no-ext-diff", f"{old}{dots}{new}")
    return Answer(200, text, {"content-type": f"application/vnd.github.{kind}; charset=utf-8"})


@operation("pulls/get")
def get_pull(call: Call) -> Answer:
    """A pull request, as JSON, diff or patch."""
    issue, pull = call.pull
    if kind := text_media(call.request.accept):
        return as_text(call.repo, pull.base_sha, pull.head_sha, kind)
    return _shown(call, issue, pull)


@operation("pulls/list")
def list_pulls(call: Call) -> Answer:
    """Pull requests: open ones, newest first, unless asked otherwise."""
    query, repo = call.request.query, call.repo
    found = list(repo.pulls())
    state = query.get("state", "open")
    if state != "all":
        found = [(issue, pull) for issue, pull in found if issue.state == state]
    if head := query.get("head"):
        owner, _, ref = head.rpartition(":")
        found = [
            (issue, pull)
            for issue, pull in found
            if pull.head_ref == ref and owner.lower() in ("", pull.head_owner.login.lower())
        ]
    if base := query.get("base"):
        found = [(issue, pull) for issue, pull in found if pull.base_ref == base]
    if (
        query.get("direction", "desc" if query.get("sort", "created") == "created" else "asc")
        == "desc"
    ):
        found.reverse()
    return call.page(found, lambda pair: pull_simple_json(call.links, repo, *pair))


@operation("pulls/create", needs=["pull_requests"])
def create_pull(call: Call) -> Answer:
    """Open a pull request between two branches with different commits."""
    repo, data = call.repo, call.data
    if call.user.type == "Bot" and not repo.bots_open_pulls:
        sentence = "GitHub Actions is not permitted to create or approve pull requests."
        raise Refusal(403, sentence)
    limits.check_length("PullRequest", "title", data.get("title"), limits.TITLE_CHARACTERS)
    limits.check_body("PullRequest", data.get("body") or "")
    if not (data.get("title") or "").strip():
        raise Refusal(422, "Validation Failed", errors=[_missing("title")])
    head_repo, head = _head(call, data["head"], data.get("head_repo"))
    if repo.git.branch(data["base"]) is None:
        raise validation_failed("PullRequest", "base", "base is invalid", "invalid")
    _see_new(repo, head_repo, head, data["base"])
    issue = open_pull(
        call.world,
        repo,
        call.user,
        title=data["title"],
        body=data.get("body"),
        base=data["base"],
        head=head,
        head_repo=head_repo,
        draft=bool(data.get("draft")),
    )
    call.announce("pull_request", "opened", repo, issue=issue)
    if issue.pull is None:
        raise Refusal(500, "Server Error")
    answer = _shown(call, issue, issue.pull, 201)
    return Answer(201, answer.body, {"location": answer.body["url"]})


def _missing(field: str) -> dict[str, str]:
    return {"resource": "PullRequest", "code": "missing_field", "field": field}


def _head(call: Call, text: str, repo_name: str | None) -> tuple[Repository, str]:
    """The repository and branch of `branch`, or `owner:branch`. Raises Refusal (422)."""
    owner, _, ref = text.rpartition(":")
    repo = call.repo
    if owner and owner.lower() != repo.owner.login.lower():
        name = (repo_name or repo.name).rpartition("/")[2]
        fork = call.world.repositories.get(f"{owner}/{name}".lower())
        if fork is None or fork.parent is not repo:
            raise validation_failed("PullRequest", "head", "head is invalid", "invalid")
        repo = fork
    if repo.git.branch(ref) is None:
        raise validation_failed("PullRequest", "head", "head is invalid", "invalid")
    return repo, ref


def _see_new(repo: Repository, head_repo: Repository, head: str, base: str) -> None:
    """Refuse a pull request that is open already, or that would bring nothing."""
    for issue, pull in repo.pulls():
        same = pull.head_repo is head_repo and pull.head_ref == head and pull.base_ref == base
        if same and issue.state == "open":
            message = f"A pull request already exists for {head_repo.owner.login}:{head}."
            raise Refusal(
                422,
                "Validation Failed",
                errors=[{"resource": "PullRequest", "code": "custom", "message": message}],
            )
    tip = head_repo.git.branch(head) or ""
    repo.git.fetch(head_repo.git, tip)
    if not compare(repo, repo.git.branch(base) or "", tip).commits:
        message = f"No commits between {base} and {head}"
        error = {"resource": "PullRequest", "code": "custom", "message": message}
        raise Refusal(422, "Validation Failed", errors=[error])


@operation("pulls/update", needs=["pull_requests"])
def update_pull(call: Call) -> Answer:
    """Change title, body, base or state."""
    issue, pull = call.pull
    data, repo = call.data, call.repo
    limits.check_length("PullRequest", "title", data.get("title"), limits.TITLE_CHARACTERS)
    limits.check_body("PullRequest", data.get("body") or "")
    if (base := data.get("base")) is not None:
        tip = repo.git.branch(base)
        if tip is None:
            raise validation_failed("PullRequest", "base", "base is invalid", "invalid")
        pull.base_ref, pull.base_sha = base, tip
    issue.title = data.get("title") or issue.title
    issue.body = data.get("body", issue.body)
    issue.updated = call.world.now()
    state = data.get("state", issue.state)
    if state != issue.state:
        set_state(call, issue, pull, state)
    return _shown(call, issue, pull)


def set_state(call: Call, issue: Issue, pull: Pull, state: str) -> None:
    """Close or reopen. Raises Refusal (422) for one that was merged."""
    if pull.merged is not None:
        raise validation_failed("PullRequest", "state", "state cannot be changed.", "invalid")
    issue.state = state
    issue.closed = call.world.now() if state == "closed" else None
    action = "closed" if state == "closed" else "reopened"
    call.announce("pull_request", action, call.repo, issue=issue)


@operation("pulls/list-files")
def list_files(call: Call) -> Answer:
    """The changed files: 3,000 at most, whatever the pull request holds."""
    _, pull = call.pull
    repo, files = call.repo, compare_pull(call.repo, pull).files[: limits.LISTED_FILES]
    return call.page(files, lambda file: file_json(call.links, repo, file, pull.head_sha))


@operation("pulls/list-commits")
def list_commits(call: Call) -> Answer:
    """The commits, oldest first: 250 at most."""
    _, pull = call.pull
    repo = call.repo
    commits = compare_pull(repo, pull).commits[: limits.LISTED_COMMITS]
    return call.page(commits, lambda sha: call.commit_json(sha))


@operation("pulls/check-if-merged")
def check_if_merged(call: Call) -> Answer:
    """204 when it was merged, 404 when not."""
    _, pull = call.pull
    return Answer(204) if pull.merged is not None else Answer(404, {"message": "Not Found"})


@operation("pulls/merge", needs=["contents"])
def merge_pull(call: Call) -> Answer:
    """Merge with a merge commit, and close."""
    issue, pull = call.pull
    if issue.state != "open" or pull.draft:
        raise Refusal(405, "Pull Request is not mergeable")
    if call.data.get("sha") not in (None, pull.head_sha):
        raise Refusal(409, "Head branch was modified. Review and try the merge again.")
    git, message = call.repo.git, f"Merge pull request #{issue.number}"
    try:
        tree = git.text("merge-tree", "--write-tree", pull.base_sha, pull.head_sha)
    except GitError:
        raise Refusal(405, "Pull Request is not mergeable") from None
    parents = ("-p", pull.base_sha, "-p", pull.head_sha)
    identity = ("-c", "user.name=GitHub", "-c", "user.email=noreply@localhost")
    sha = git.text(*identity, "commit-tree", tree.split()[0], *parents, "-m", message)
    git.point(f"refs/heads/{pull.base_ref}", sha)
    now = call.world.now()
    pull.merged, pull.merged_by, pull.merge_commit = now, call.user, sha
    issue.state, issue.closed, issue.updated = "closed", now, now
    call.announce("pull_request", "closed", call.repo, issue=issue)
    body = {"sha": sha, "merged": True, "message": "Pull Request successfully merged"}
    return Answer(200, body)


@operation("pulls/request-reviewers", needs=["pull_requests"])
def request_reviewers(call: Call) -> Answer:
    """Ask people for a review; the author cannot be one of them."""
    issue, pull = call.pull
    for login in call.data.get("reviewers", ()):
        user = call.world.users.get(login.lower())
        if user is issue.user:
            message = "Review cannot be requested from pull request author."
            raise Refusal(422, message, errors=[message])
        if user is None or call.repo.role(user) == "none":
            message = "Reviews may only be requested from collaborators."
            raise Refusal(422, message, errors=[message])
        if user not in pull.reviewers:
            pull.reviewers.append(user)
    return Answer(201, pull_simple_json(call.links, call.repo, issue, pull))


@operation("pulls/remove-requested-reviewers", needs=["pull_requests"])
def remove_reviewers(call: Call) -> Answer:
    """Take requests for a review back."""
    issue, pull = call.pull
    names = {login.lower() for login in call.data.get("reviewers", ())}
    pull.reviewers = [user for user in pull.reviewers if user.login.lower() not in names]
    return Answer(200, pull_simple_json(call.links, call.repo, issue, pull))
