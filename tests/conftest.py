"""Fixtures for everything that talks to GitHub.

`forge` is a GitHub of our own on 127.0.0.1 (demo/forge.py). At the end of the test every request
it received and every answer it gave is held against GitHub's OpenAPI description.

    def test_posts_once(forge):
        repo = forge.create_repo({"train.sh": "python train.py\n"})
        pull = repo.open_pull({"train.sh": "python train.py --fp16 False\n"})
        ...  # talk to forge.api with forge.token; pull.event() is the workflow's event
        assert [c["line"] for c in pull.review_comments()] == [1]

What it offers (see demo/forge.py and demo/handles.py for all of it):

- addresses: `forge.url` (pages, GITHUB_SERVER_URL), `forge.api` (GITHUB_API_URL), `forge.graphql`
- credentials: `forge.token` (a workflow's), `forge.read_token()` (a fork's), `forge.token_for(
  {"pull_requests": "write"})`, `forge.person("alice")`; `repo.give_role("alice", "write")`
- `repo = forge.create_repo(files, name="octocat/train", private=False)`, `forge.fork(repo, "eve")`,
  `repo.commit(branch, files)`, `repo.tip(branch)`, `repo.clone_url`, `repo.references()`
- `pull = repo.open_pull(files, branch=, title=, draft=, source=fork)`, `pull.number`, `.head`,
  `.push(files)`, `.comment(text, login)` (returns the issue_comment event), `.reply(thread, text)`,
  `.add_label(name)`, `.close()`, `.event(action)`
- what was posted: `pull.comments()`, `.reviews()`, `.review_comments()`, `.threads()` (with
  `.resolved_by` and `.anchor.outdated`), `.checks()` (with `annotations`), `.labels()`
- faults: `forge.inject("502", after=3, moment="after")`; kinds: a status, "secondary", "primary",
  "429", "abuse", "reset", "truncated", "slow"; `retry_after=`, `method=`, `path=`, `operation=`,
  `times=` narrow it down. `after` counts matching requests from now on, API and git alike
- `forge.log` (every exchange: `.request`, `.answer`, `.operation`, `.fault`, `.body`),
  `forge.writes()` (those that changed something)
- limits: `forge.rates.enforce()` turns GitHub's secondary rate limits on; `forge.pass_time(60)`
- resolving a thread needs `contents: write` as well, as on GitHub

`enterprise_forge` is the same with the API below /api/v3. A test may also start a `Forge()` of its
own: its traffic is checked when the test run ends. A request that is meant to be refused by
the description carries the header `x-deliberate`; its answer is still checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from demo.forge import Forge
from tests.demo.openapi_check import problems


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests audit stays out of a person's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


class Traffic:
    """What was wrong with the traffic of every forge that stopped, until somebody asks."""

    def __init__(self) -> None:
        self.wrong: dict[str, list[str]] = {}

    def watch(self, forge: Forge) -> None:
        # A port may be given twice in a run.
        self.wrong.setdefault(forge.url, []).extend(problems(forge.log))

    def check(self, *urls: str) -> None:
        found = [text for url in urls for text in self.wrong.pop(url)]
        assert not found, "\n".join(["traffic that GitHub does not describe:", *found])


@pytest.fixture(scope="session", autouse=True)
def traffic() -> Iterator[Traffic]:
    """Watches every forge of the test run, those included that tests start by themselves."""
    watched = Traffic()
    Forge.watchers.append(watched.watch)
    yield watched
    Forge.watchers.remove(watched.watch)
    watched.check(*watched.wrong)


def served(traffic: Traffic, folder: Any, *, enterprise: bool = False) -> Iterator[Forge]:
    with Forge(folder, enterprise=enterprise) as forge:
        yield forge
    traffic.check(forge.url)


@pytest.fixture
def forge(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """A running forge whose traffic is checked at the end."""
    yield from served(traffic, tmp_path_factory.mktemp("forge"))


@pytest.fixture
def enterprise_forge(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """The same as an Enterprise Server: API below /api/v3, GraphQL at /api/graphql."""
    yield from served(traffic, tmp_path_factory.mktemp("forge"), enterprise=True)
