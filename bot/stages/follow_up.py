"""The follow-up pull request: one branch of ours for each pull request, offered as a draft.

Nothing but that branch is ever written. It is moved only while every commit on it is ours: a
person's commit on it makes it theirs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pitstop.bot import git
from pitstop.bot.github_api import GitHub
from pitstop.bot.markdown import Markdown
from pitstop.bot.pulls import Commit, PullRequest
from pitstop.bot.stages.offered import BOUND, Offer
from pitstop.bot.stages.request import RunRequest
from pitstop.bot.transport import ApiError, ForbiddenError, OutOfTimeError, RefusedError, Transport

LABEL = "pitstop"
_OFFERED = re.compile(r"<!-- pitstop:offers ([\w.,-]*) -->\s*\Z")
_BOUND = re.compile(rf"^{BOUND}: ([0-9a-f]{{40}})$", re.MULTILINE)
_CLOSED_MARK = "<!-- pitstop:closed -->"


@dataclass(frozen=True, slots=True)
class Opened:
    """The pull request stands. `new` when it was not there before."""

    pull: PullRequest
    new: bool


@dataclass(frozen=True, slots=True)
class BranchOnly:
    """The branch is pushed, but the token may not open pull requests here."""

    branch: str


@dataclass(frozen=True, slots=True)
class NotOpened:
    """Nothing was written; the sentence says why."""

    why: str


FollowUp = Opened | BranchOnly | NotOpened


def branch_for(number: int) -> str:
    """Our branch for a pull request."""
    return f"pitstop/pr-{number}"


def follow_up(
    github: GitHub,
    remote: git.Remote,
    store: git.Store,
    request: RunRequest,
    offered: Sequence[Offer],
    title: str,
    body: Markdown,
    transport: Transport,
) -> FollowUp:
    """Push the commits and open or update the pull request. Raises ApiError."""
    branch = branch_for(request.number)
    tip = github.commit_of(branch)
    if tip is not None and not all(map(_ours, _on_branch(github, tip))):
        return NotOpened(
            f"Somebody has committed to `{branch}`, so it is left as it is. Delete or rename the"
            " branch to get a new one."
        )
    pulls = github.own_pulls(branch)
    standing = next((pull for pull in pulls if pull.state == "open"), None)
    ids = [offer.change.id for offer in offered]
    if standing is None and _turned_down(pulls, ids) and not request.only:
        return NotOpened(
            "The same changes were offered before and closed without merging, so they are not"
            f" offered again. `/optimize only {' '.join(ids)}` asks for them."
        )
    git.push(store, remote, offered[-1].commit, branch, tip.sha if tip else "", transport)
    whole = Markdown(f"{body.rstrip()}\n\n<!-- pitstop:offers {','.join(ids)} -->\n")
    if standing is not None:
        github.edit_pull(standing.number, title=title, body=whole)
        return Opened(standing, new=False)
    return _open(github, branch, request.head_ref, title, whole)


def _open(github: GitHub, branch: str, base: str, title: str, body: str) -> FollowUp:
    def landed() -> PullRequest | None:
        return next((pull for pull in github.own_pulls(branch) if pull.state == "open"), None)

    try:
        pull = github.create_pull(title, body, branch, base, landed)
    except OutOfTimeError:
        raise
    except RefusedError as error:
        if isinstance(error, ForbiddenError) or error.status in (403, 404):
            return BranchOnly(branch)
        raise
    try:
        github.add_label(pull.number, LABEL)
    except OutOfTimeError:
        raise
    except ApiError:
        pass  # a label is worth no failure
    return Opened(pull, new=True)


def _on_branch(github: GitHub, tip: Commit) -> tuple[Commit, ...]:
    """The commits of the branch since the one it was bound to; the tip alone when it says none."""
    bound = _BOUND.search(tip.message)
    return (*github.commits_between(bound[1], tip.sha), tip) if bound else (tip,)


def _ours(commit: Commit) -> bool:
    return commit.committer == dict(git.WHO)["user.email"] and bool(_BOUND.search(commit.message))


def _turned_down(pulls: Sequence[PullRequest], ids: Collection[str]) -> bool:
    """Whether the last follow-up offered all of this and was closed without merging."""
    if not pulls or pulls[0].merged:
        return False
    found = _OFFERED.search(pulls[0].body)
    return found is not None and set(ids) <= set(found[1].split(","))


def close_follow_up(github: GitHub, number: int, merged: bool) -> str:
    """Close the follow-up of a pull request that has ended; what was done, in words."""
    word = "merged" if merged else "closed"
    viewer = github.viewer().removesuffix("[bot]")
    for pull in github.own_pulls(branch_for(number)):
        if pull.state != "open" or pull.author.removesuffix("[bot]") != viewer:
            continue
        text = f"#{number} was {word}, so this has nothing to go into any more.\n\n{_CLOSED_MARK}"

        def landed(of: int = pull.number) -> object:
            said = (one for one in github.comments(of) if one.ours and _CLOSED_MARK in one.body)
            return next(said, None)

        if landed() is None:
            github.create_comment(pull.number, text, landed)  # type: ignore[arg-type]
        github.edit_pull(pull.number, state="closed")
        return f"#{pull.number} is closed, since #{number} was {word}."
    return f"nothing to do: #{number} was {word} and has no open follow-up"
