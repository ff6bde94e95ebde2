"""A small GitHub on 127.0.0.1: REST, GraphQL, git, webhooks and web pages over real repositories.

    python -m demo.forge --port 3000

In a program: `with Forge() as forge:`, then `forge.create_repo(...)`. Everything that a method
here does by itself is done in the process and neither logged nor struck by faults; only what
comes over HTTP is.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from demo.api import ENTERPRISE_GRAPHQL, GRAPHQL, PREFIX, Api
from demo.faults import Fault
from demo.gitrepo import BareRepo, Content
from demo.handles import ForgeRepo
from demo.limits import Rates
from demo.server import Exchange, ForgeServer
from demo.shapes import Links
from demo.state import Hook, Repository, World
from demo.webhooks import Courier, Delivery, Event

WRITE_ALL = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "write",
}
READ_ALL = dict.fromkeys(WRITE_ALL, "read")
BOT = "github-actions[bot]"
EVENTS = ("pull_request", "issue_comment")


class Forge:
    """A running forge. `url` is the address of its pages, `api` and `graphql` those of its API,
    `token` that of a workflow with write permissions. Set `enterprise` to have the API below
    /api/v3, as an Enterprise Server has it, and `host` to be reached by containers."""

    # Called with every forge that stops, while its log is still there.
    watchers: ClassVar[list[Callable[[Forge], None]]] = []

    def __init__(
        self,
        root: Path | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        enterprise: bool = False,
    ) -> None:
        self._temporary = root is None
        self.root = root or Path(tempfile.mkdtemp(prefix="forge-"))
        self.world = World(self.root)
        self.rates = Rates()
        self._courier = Courier()
        self._api = Api(self.world, self.rates, self._courier, enterprise)
        self._server = ForgeServer((host, port), self._api)
        self.url = f"http://{host}:{self._server.server_address[1]}"
        self.api = self.url + (PREFIX if enterprise else "")
        self.graphql = self.url + (ENTERPRISE_GRAPHQL if enterprise else GRAPHQL)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True, name="forge"
        )
        self._thread.start()
        self.token = self.token_for(WRITE_ALL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop answering, deliver what webhooks still wait for, remove temporary files."""
        self._server.shutdown()
        self._server.server_close()
        self._courier.stop()
        for watcher in self.watchers:
            watcher(self)
        if self._temporary:
            shutil.rmtree(self.root, ignore_errors=True)

    # Accounts and repositories

    @property
    def links(self) -> Links:
        """The addresses as a client reaches them."""
        return Links(self.url, self.api)

    def token_for(
        self,
        permissions: Mapping[str, str],
        *,
        login: str = BOT,
        repositories: Iterable[str] | None = None,
    ) -> str:
        """A workflow's token with these permissions, such as {"pull_requests": "write"}."""
        scope = None if repositories is None else frozenset(n.lower() for n in repositories)
        with self.world.lock:
            user = self.world.user(login)
            return self.world.issue_token(user, permissions, repositories=scope).value

    def read_token(self) -> str:
        """What a workflow gets for a pull request from a fork: it may read."""
        return self.token_for(READ_ALL)

    def person(self, login: str) -> str:
        """A person's token; what it may do depends on their role in a repository."""
        with self.world.lock:
            user = self.world.user(login)
            return self.world.issue_token(user, WRITE_ALL, kind="personal").value

    def create_repo(
        self,
        files: Mapping[str, Content],
        name: str = "octocat/train",
        *,
        private: bool = False,
        branch: str = "main",
    ) -> ForgeRepo:
        """A repository whose first commit holds these files."""
        with self.world.lock:
            owner_name, _, short = name.partition("/")
            if name.lower() in self.world.repositories:
                raise ValueError(f"{name} exists already")
            git = BareRepo.create(self.root / owner_name / f"{short}.git", branch)
            owner, now = self.world.user(owner_name), self.world.now()
            repo = Repository(self.world.next_id(), owner, short, git, now, branch, private=private)
            self.world.repositories[name.lower()] = repo
            git.commit_files(branch, files, "Begin", when=int(now), author=owner_name)
        return ForgeRepo(self, repo)

    def fork(self, repo: ForgeRepo, owner: str) -> ForgeRepo:
        """A person's fork."""
        with self.world.lock:
            source = repo.record
            git = source.git.fork(self.root / owner / f"{source.name}.git")
            copy = Repository(
                self.world.next_id(),
                self.world.user(owner),
                source.name,
                git,
                self.world.now(),
                source.default_branch,
                parent=source,
            )
            self.world.repositories[copy.full_name.lower()] = copy
        return ForgeRepo(self, copy)

    def notice(self, login: str | None = None) -> None:
        """Let pull requests follow branches that were moved in this process."""
        with self.world.lock:
            sender = self.world.user(login) if login else None
            self._api.notice_pushes(self.links, sender)

    # Watching and disturbing

    @property
    def log(self) -> list[Exchange]:
        """Every request that came over HTTP, in the order of arrival."""
        return list(self._server.log)

    def writes(self) -> list[Exchange]:
        """The API requests that changed something."""
        return [
            exchange
            for exchange in self.log
            if exchange.kind == "api"
            and exchange.request.method != "GET"
            and exchange.answer is not None
            and exchange.answer.status < 300
        ]

    def inject(self, kind: str, **details: Any) -> None:
        """Plan a fault, see `demo.faults.Fault`: inject("502", after=3, moment="after")."""
        self._server.faults.add(Fault(kind, **details))

    def clear_faults(self) -> None:
        """Forget the faults that have not struck."""
        self._server.faults.faults.clear()

    def pass_time(self, seconds: float) -> None:
        """Set the forge's clock forward."""
        self.world.clock_offset += seconds

    @contextmanager
    def reading(self) -> Iterator[World]:
        """The World, held still."""
        with self.world.lock:
            yield self.world

    # Webhooks

    def add_hook(
        self, repo: ForgeRepo, url: str, secret: str = "", events: Iterable[str] = EVENTS
    ) -> None:
        """Send a repository's events to an address, signed with the secret."""
        with self.world.lock:
            hook = Hook(self.world.next_id(), url, secret, frozenset(events))
            repo.record.hooks.append(hook)

    def deliveries(self) -> list[Delivery]:
        """What webhooks have been told, after waiting for those under way."""
        self._courier.settle()
        return list(self._courier.delivered)

    def send(self, repo: Repository, name: str, action: str, login: str, **about: Any) -> None:
        """Announce something that was done in this process."""
        with self.world.lock:
            event = Event(name, action, repo, self.world.user(login), about)
            self._api.announce(self.links, [event])


def main() -> None:
    """Serve an empty forge until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m demo.forge", description=main.__doc__)
    parser.add_argument("--port", type=int, default=3000)
    parser.add_argument("--root", type=Path, help="keep the repositories here")
    options = parser.parse_args()
    with Forge(options.root, port=options.port) as forge:
        print(f"{forge.url}  token {forge.token}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
