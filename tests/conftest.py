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

`enterprise_forge` is the same with the API below /api/v3. A request that is meant to be refused by
the description carries the header `x-deliberate`; its answer is still checked.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

from demo.forge import Forge
from tests.demo.openapi_check import problems


def served(forge: Forge) -> Iterator[Forge]:
    with forge:
        yield forge
        found = problems(forge.log)
    assert not found, "\n".join(["traffic that GitHub does not describe:", *found])


@pytest.fixture
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """A running forge whose traffic is checked at the end."""
    yield from served(Forge(tmp_path_factory.mktemp("forge")))


@pytest.fixture
def enterprise_forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """The same as an Enterprise Server: API below /api/v3, GraphQL at /api/graphql."""
    yield from served(Forge(tmp_path_factory.mktemp("forge"), enterprise=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test is a failed one, unless it needs a GPU: there, everything else that
    tests need is installed and started."""
    report = yield
    may_skip = "gpu" in item.keywords or hasattr(report, "wasxfail")
    if report.skipped and os.environ.get("CI") and not may_skip:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
