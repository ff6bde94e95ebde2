"""Any single request may go wrong, in any way, and the end is as if none had.

The requests of one undisturbed run are counted; then the same run is made once for each of them,
on a pull request of its own, with a fault at just that request.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.forge import Forge
from demo.handles import ForgePull, ForgeRepo
from pitstop.bot.action import run
from pitstop.bot.review import mark
from pitstop.bot.summary import MARK
from tests.bot.reviewing import Time, audit_marks, settings_for

FAULTS: dict[str, dict[str, Any]] = {
    "500": {"kind": "500"},
    "502 although it took effect": {"kind": "502", "moment": "after"},
    "secondary limit": {"kind": "secondary", "retry_after": 7},
    "429": {"kind": "429"},
    "reset although it took effect": {"kind": "reset", "moment": "after"},
}
RARE_FAULTS: dict[str, dict[str, Any]] = {
    **FAULTS,
    "reset": {"kind": "reset"},
    "cut off": {"kind": "truncated"},
    "abuse": {"kind": "abuse"},
    "primary limit": {"kind": "primary"},
}

BASE = {
    "a": "x\n" * 9,
    "renamed": "x\n" * 9 + "SLOW CRITICAL\n",
    ".github/pitstop.yml": "review: {max_inline: 6}\n",
}
CHANGE = {
    "a": "SLOW three\n" + "x\n" * 7 + "SLOW one\n",
    "fixed": "fast\n",
    "many": "".join(f"SLOW {n}\n" for n in range(49)),
    "renamed": None,
    "new name": "x\n" * 9 + "SLOW CRITICAL\n",
}


class Bench:
    """Pull requests that are all alike: one of our comments is about something that is gone by
    now, and the summary is an old one."""

    def __init__(self, forge: Forge, folder: Path) -> None:
        self.forge = forge
        self.folder = folder
        self.repo: ForgeRepo = forge.create_repo(BASE)
        self._made = 0

    def opened(self) -> ForgePull:
        self._made += 1
        name = f"change-{self._made}"  # in its commit too: two check runs must not meet on one
        return self.repo.open_pull(CHANGE, branch=name, title=name)

    def reviewed(self) -> ForgePull:
        pull = self.opened()
        body = f"Gone.\n{mark('0123456789abcdef', 'GEN-F01')}"
        comments = [{"path": "fixed", "line": 1, "body": body}]
        review = {"event": "COMMENT", "body": "", "comments": comments}
        self._post(f"pulls/{pull.number}/reviews", review)
        old = f"Old.\n{MARK}\n<!-- pitstop:reviewed {'0' * 40} -->"
        self._post(f"issues/{pull.number}/comments", {"body": old})
        return pull

    def _post(self, path: str, data: object) -> None:
        headers = {"authorization": f"token {self.forge.token}"}
        address = f"{self.forge.api}/repos/{self.repo.name}/{path}"
        request = urllib.request.Request(address, json.dumps(data).encode(), headers)
        with urllib.request.urlopen(request):
            pass

    def review(self, pull: ForgePull) -> int:
        """Returns how many requests it took."""
        before = len(self.forge.log)
        settings = settings_for(self.forge, pull, self.folder / str(pull.number))
        assert run(settings, clock=Time().clock, audit=audit_marks) == 0
        return len(self.forge.log) - before


def plain(text: str) -> str:
    return re.sub(r"\b(?:[0-9a-f]{40}|[0-9a-f]{7})\b", "commit", text)


def state(pull: ForgePull) -> dict[str, Any]:
    """Everything that a person sees of a pull request, without the names of its commits."""
    return {
        "comments": [plain(comment["body"]) for comment in pull.comments()],
        "inline": [
            (comment["path"], comment["line"], plain(comment["body"]))
            for comment in pull.review_comments()
        ],
        "reviews": len(pull.reviews()),
        "resolved": [thread.resolved_by is not None for thread in pull.threads()],
        "checks": [
            (check["status"], check["conclusion"], len(check["annotations"]))
            for check in pull.checks()
        ],
    }


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("faults")
    with Forge(folder / "forge") as forge:
        yield Bench(forge, folder)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_at_any_request_changes_nothing(bench: Bench, name: str) -> None:
    pull = bench.reviewed()
    count = bench.review(pull)
    expected = state(pull)
    pull.close()
    assert expected["resolved"] == [True, *[False] * 6]
    assert [line for _, line, _ in expected["inline"]].count(None) == 1
    assert expected["checks"] == [("completed", "neutral", 52)]
    for index in range(count):
        other = bench.reviewed()
        bench.forge.inject(**FAULTS[name], after=index)
        assert bench.review(other) > count
        assert state(other) == expected, f"{name}: request {index}"
        other.close()  # the forge follows every open one


@pytest.mark.parametrize("operation", ["issues/create-comment", "pulls/create-review"])
@pytest.mark.parametrize("name", RARE_FAULTS)
def test_first_words_are_said_once(bench: Bench, name: str, operation: str) -> None:
    pull = bench.opened()
    bench.forge.inject(**RARE_FAULTS[name], operation=operation)
    bench.review(pull)
    assert len(pull.comments()) == 1
    assert len(pull.reviews()) == 2  # the lines, and the comment on a whole file
    assert len(pull.review_comments()) == 6
    pull.close()


def test_a_second_summary_is_taken_back(bench: Bench) -> None:
    pull = bench.reviewed()
    second = f"Old.\n{MARK}\n<!-- pitstop:reviewed {'0' * 40} -->"
    bench._post(f"issues/{pull.number}/comments", {"body": second})  # a request thought lost
    bench.review(pull)
    assert len(pull.comments()) == 1
    assert "Old." not in pull.comments()[0]["body"]
    pull.close()
