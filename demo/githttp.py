"""git over HTTP: `git http-backend` behind the forge's tokens."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from demo.api import password
from demo.gitrepo import git_environment
from demo.state import Repository, Token, World
from demo.wire import Answer, Request

GIT_PATH = re.compile(
    r"/(?P<name>[^/]+/[^/]+?)(?:\.git)?"
    r"(?P<rest>/info/refs|/git-upload-pack|/git-receive-pack)"
)
CHALLENGE = {"www-authenticate": 'Basic realm="GitHub"'}


@dataclass(frozen=True, slots=True)
class GitRequest:
    """A request that speaks git: to which repository, and whether it wants to write."""

    name: str
    rest: str
    writes: bool


def git_request(request: Request) -> GitRequest | None:
    """The git request that this is, or None."""
    match = GIT_PATH.fullmatch(request.path)
    if match is None:
        return None
    service = request.query.get("service", match["rest"].strip("/"))
    return GitRequest(match["name"], match["rest"], service == "git-receive-pack")


def refuse(world: World, request: Request, wanted: GitRequest) -> Answer | Repository:
    """The repository, or why not: 401 asks for a token, 403 for a better one, 404 denies all."""
    token, given = _token(world, request)
    if given and token is None:
        return Answer(401, "Bad credentials\n", CHALLENGE)
    repo = world.repositories.get(wanted.name.lower())
    if repo is None or (repo.private and not _sees(token, repo)):
        return Answer(404 if token else 401, "Repository not found.\n", {} if token else CHALLENGE)
    if wanted.writes:
        if token is None:
            return Answer(401, "Authentication required\n", CHALLENGE)
        if not _writes(token, repo):
            sentence = f"Permission to {repo.full_name}.git denied to {token.user.login}.\n"
            return Answer(403, sentence)
    return repo


def _token(world: World, request: Request) -> tuple[Token | None, bool]:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        value = password(value.strip())
    return world.tokens.get(value.strip()), bool(value.strip())


def _sees(token: Token | None, repo: Repository) -> bool:
    if token is None:
        return False
    if token.kind == "installation":
        return token.reaches(repo.full_name) and token.may("contents", "read")
    return repo.role(token.user) != "none"


def _writes(token: Token, repo: Repository) -> bool:
    if not token.may("contents") or not token.reaches(repo.full_name):
        return False
    return token.kind == "installation" or repo.role(token.user) in ("write", "maintain", "admin")


def run_backend(request: Request, wanted: GitRequest, repo: Repository, query: str) -> Answer:
    """What `git http-backend` answers. Its CGI headers become the answer's."""
    environment = git_environment() | {
        "GIT_PROJECT_ROOT": str(repo.git.path.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": request.method,
        "PATH_INFO": f"/{repo.git.path.name}{wanted.rest}",
        "QUERY_STRING": query,
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
        "REMOTE_USER": "forge",
        "REMOTE_ADDR": "127.0.0.1",
    }
    done = subprocess.run(
        ["git", "http-backend"], input=request.body, capture_output=True, env=environment
    )
    return _answer(done.stdout)


def _answer(output: bytes) -> Answer:
    head, _, body = output.partition(b"\r\n\r\n")
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    status = int(headers.pop("status", "200").split()[0])
    return Answer(status, body, headers)
