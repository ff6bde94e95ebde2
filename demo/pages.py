"""The forge's web pages: what is where, and the frame around it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from demo.gitrepo import GitError
from demo.markup import Html, joined, tag
from demo.page_pull import checks_view, conversation_view, disc, files_view
from demo.pulls import compare_pull
from demo.shapes import Links
from demo.state import Issue, Pull, Repository, World
from demo.wire import Answer, Refusal, Request, not_found

STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
PAGES = re.compile(
    r"/(?P<owner>[^/]+)/(?P<repo>[^/]+)"
    r"(?:/pull/(?P<number>\d+)(?P<view>/files|/checks|\.diff|\.patch)?"
    r"|/(?P<what>blob|raw|commit|tree)/(?P<rest>.+))?/?"
)
HTML = {
    "content-type": "text/html; charset=utf-8",
    # Nothing that a comment holds may run.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src * data:",
}


def page(world: World, request: Request) -> Answer:
    """The page of an address. Raises nothing: a refusal is a page too."""
    try:
        return _page(world, request)
    except Refusal as refusal:
        body = _frame(refusal.message, tag("h1", f"{refusal.status} {refusal.message}"))
        return Answer(refusal.status, body, HTML)


def _page(world: World, request: Request) -> Answer:
    path = unquote(request.path)
    if path == "/":
        return Answer(200, _frame("Repositories", _index(world)), HTML)
    if face := re.fullmatch(r"/avatars/(\d+)", path):
        return Answer(200, _avatar(face[1]), {"content-type": "image/svg+xml"})
    match = PAGES.fullmatch(path)
    if match is None or request.method not in ("GET", "HEAD"):
        raise not_found()
    repo = world.repository(f"{match['owner']}/{match['repo'].removesuffix('.git')}")
    if repo.private:
        raise not_found()
    if match["what"]:
        return _object(repo, match["what"], match["rest"])
    if match["number"] is None:
        return Answer(200, _frame(repo.full_name, _repository(repo)), HTML)
    issue = repo.issues.get(int(match["number"]))
    if issue is None or issue.pull is None:
        raise not_found()
    if match["view"] in (".diff", ".patch"):
        return _as_text(repo, issue.pull, match["view"])
    body = _pull(world, Links(request.base, request.base), repo, issue, issue.pull, match["view"])
    title = f"{issue.title} · Pull Request #{issue.number} · {repo.full_name}"
    return Answer(200, _frame(title, body, repo), HTML)


def _frame(title: str, body: Html, repo: Repository | None = None) -> str:
    where = tag("a", "forge", href="/", class_="brand")
    if repo is not None:
        name = f"{repo.owner.login} / {repo.name}"
        where = joined(where, tag("a", name, href=f"/{repo.full_name}"))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    content = tag("body", tag("header", where, class_="top"), tag("main", body))
    return "<!doctype html>\n" + tag("html", head, content, lang="en")


def _avatar(number: str) -> str:
    """A plain disc, its colour made of the number."""
    circle = tag("circle", cx=20, cy=20, r=20, fill=disc(int(number)))
    return tag("svg", circle, xmlns="http://www.w3.org/2000/svg", viewBox="0 0 40 40")


def _index(world: World) -> Html:
    rows = [
        tag("li", tag("a", repo.full_name, href=f"/{repo.full_name}"))
        for repo in world.repositories.values()
        if not repo.private
    ]
    return joined(tag("h1", "Repositories"), tag("ul", *rows, class_="list"))


def _repository(repo: Repository) -> Html:
    home = f"/{repo.full_name}"
    pulls = [
        tag("li", tag("a", f"#{issue.number} {issue.title}", href=f"{home}/pull/{issue.number}"))
        for issue, _ in repo.pulls()
    ]
    try:
        entries = repo.git.tree(repo.default_branch)
    except GitError:
        entries = []
    files = [
        tag("li", tag("a", entry.path, href=f"{home}/blob/{repo.default_branch}/{entry.path}"))
        for entry in entries
    ]
    return joined(
        tag("h1", repo.full_name),
        tag("h2", "Pull requests"),
        tag("ul", *pulls, class_="list") if pulls else tag("p", "None yet."),
        tag("h2", f"Files on {repo.default_branch}"),
        tag("ul", *files, class_="list"),
    )


def _object(repo: Repository, what: str, rest: str) -> Answer:
    """A file, raw or with line numbers; or a commit."""
    try:
        if what == "commit":
            commit = repo.git.resolve(rest)
            if commit is None:
                raise not_found()
            text = repo.git.run("show", "--no-color", commit)
            return Answer(200, text, {"content-type": "text/plain; charset=utf-8"})
        revision, path, data = _file(repo, rest)
    except GitError:
        raise not_found() from None
    if what == "raw":
        return Answer(200, data, {"content-type": "text/plain; charset=utf-8"})
    lines = data.decode("utf-8", "replace").split("\n")
    rows = [
        tag("tr", tag("td", number, class_="number"), tag("td", line), id=f"L{number}")
        for number, line in enumerate(lines, 1)
    ]
    body = joined(tag("h1", path), tag("p", revision), tag("table", *rows, class_="source"))
    return Answer(200, _frame(path, body, repo), HTML)


def _file(repo: Repository, rest: str) -> tuple[str, str, bytes]:
    """A revision, which may hold slashes, and the path below it. Raises GitError."""
    words = rest.split("/")
    for count in range(1, len(words)):
        revision, path = "/".join(words[:count]), "/".join(words[count:])
        if sha := repo.git.resolve(revision):
            return revision, path, repo.git.read(sha, path)
    raise GitError(f"nothing at {rest}")


def _as_text(repo: Repository, pull: Pull, view: str) -> Answer:
    base = repo.git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    ends = f"{base}..{pull.head_sha}"
    command = ("diff",) if view == ".diff" else ("format-patch", "--stdout")
    return Answer(200, repo.git.run(*command, "--no-color", ends))


def _pull(
    world: World, links: Links, repo: Repository, issue: Issue, pull: Pull, view: str | None
) -> Html:
    comparison = compare_pull(repo, pull)
    checks = [check for check in repo.checks if check.head_sha == pull.head_sha]
    home = f"/{repo.full_name}/pull/{issue.number}"
    tabs = [
        ("Conversation", "", len(issue.comments) + len(pull.reviews)),
        ("Checks", "/checks", len(checks)),
        ("Files changed", "/files", len(comparison.files)),
    ]
    chosen = [
        tag(
            "a",
            name,
            " ",
            tag("span", count, class_="count"),
            href=home + path,
            class_="tab chosen" if path == (view or "") else "tab",
        )
        for name, path, count in tabs
    ]
    if view == "/files":
        body = files_view(comparison, pull)
    elif view == "/checks":
        body = checks_view(checks, home)
    else:
        body = conversation_view(repo, issue, pull, comparison, checks, world.now())
    return joined(_headline(repo, issue, pull), tag("nav", *chosen, class_="tabs"), body)


def _headline(repo: Repository, issue: Issue, pull: Pull) -> Html:
    state = "merged" if pull.merged is not None else "draft" if pull.draft else issue.state
    base, head = tag("code", pull.base_ref), tag("code", pull.head_ref)
    if pull.head_repo is not repo:
        head = tag("code", f"{pull.head_owner.login}:{pull.head_ref}")
    line = joined(tag("strong", issue.user.login), " wants to merge ", head, " into ", base)
    return joined(
        tag("h1", issue.title, " ", tag("span", f"#{issue.number}", class_="dim")),
        tag(
            "p",
            tag("span", state.capitalize(), class_=f"state {state}"),
            line,
            class_="headline",
        ),
    )
