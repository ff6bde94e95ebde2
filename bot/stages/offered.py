"""The kept changes of a bundle as commits on the pull request's own commit, each looked at.

A patch comes from a machine that ran the pull request's code. It is applied in a bare repository,
and the commit that results is what is judged, not the patch: it may change in place the texts
that the named kind of change may touch, and nothing else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pitstop.bot import git
from pitstop.bot.markdown import plain
from pitstop.bot.optimize.arms import LAUNCH
from pitstop.bot.optimize.history import NAMES, SUFFIXES
from pitstop.bot.stages.bundle import Kept, ReadBundle
from pitstop.bot.stages.request import RunRequest
from pitstop.bot.transport import ApiError
from pitstop.rules.engine import all_rules
from pitstop.rules.finding import UserError

BOUND = "Pitstop-Bound"
"""Trailer of our commits: the commit of the pull request that they were measured on."""

PLAIN_MODES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class Offer:
    """A kept change as a commit of ours."""

    change: Kept
    commit: str
    paths: tuple[str, ...]


def offers(store: git.Store, request: RunRequest, bundle: ReadBundle) -> tuple[Offer, ...]:
    """A commit for each kept change that has a patch, one upon the other.

    Raises UserError, in one sentence, for a patch that does not apply or touches what it may not.
    """
    found = []
    parent = request.sha
    for change in bundle.data.kept:
        if not change.patch:
            continue
        message = commit_message(change, request)
        try:
            commit = git.committed(store, parent, bundle.patches[change.patch], message)
            files = git.changed_files(store, parent, commit)
        except ApiError as error:
            raise _refused(change, f"it does not apply to {request.sha[:12]}") from error
        _check(change, files)
        found.append(Offer(change, commit, tuple(file.path for file in files)))
        parent = commit
    return tuple(found)


def _check(change: Kept, files: Sequence[git.ChangedFile]) -> None:
    if not files:
        raise _refused(change, "it changes nothing")
    kind = kind_of(change.id)
    suffixes = kind.suffixes
    for file in files:
        path = PurePosixPath(file.path)
        shown = plain(file.path)[:200]
        in_place = file.status == "M" and file.mode_before == file.mode_after
        created = file.status == "A" and kind.creates and path.suffix in (".json", ".yaml")
        if not in_place and not (created and file.mode_after == "100644"):
            raise _refused(change, f"it does more to {shown} than change its text")
        if file.mode_after not in PLAIN_MODES:
            raise _refused(change, f"{shown} is no plain file")
        if any(part.startswith(".git") for part in path.parts) or path.name == LAUNCH:
            raise _refused(change, f"{shown} is not a file of a training job")
        if path.suffix not in suffixes and not (len(suffixes) > 1 and path.name in NAMES):
            raise _refused(change, f"{shown} is not a file that this change may touch")


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known of a change by its id alone: our words for it, and the endings of the files
    that it may touch."""

    title: str
    suffixes: frozenset[str]
    creates: bool = False


def kind_of(change: str) -> Kind:
    """A rule's fix, a recipe or a plan row. Raises UserError for an id that is none of them."""
    from pitstop.transforms.creations import creations
    from pitstop.transforms.plans import plan_rows
    from pitstop.transforms.recipe import recipes

    code = frozenset({".py"})
    for row in plan_rows():
        if row.id == change:
            made = row.change in creations()
            only_code = row.change in recipes() and row.package is None
            return Kind(row.title, code if only_code else SUFFIXES, made)
    for info in all_rules():
        if info.id == change:
            return Kind(f"Mend {info.id}: {info.title[:1].lower()}{info.title[1:]}", SUFFIXES)
    if change in recipes():
        return Kind(f"Apply the recipe {change}", code)
    raise UserError(
        f"The bundle of the run is refused: {plain(change)[:100]} is no change of ours."
    )


def commit_message(change: Kept, request: RunRequest) -> str:
    """What, why, the measured effect, and what it was measured on. Words from the run can link
    to nothing and mention nobody."""
    said = (plain(text) for text in (change.why, change.effect, change.losses) if text)
    lines = [kind_of(change.id).title[:100], ""]
    lines += [textwrap.fill(text, 72, break_long_words=False) for text in said]
    lines += ["", f"{BOUND}: {request.sha}", f"Pitstop-Change: {change.id}"]
    return "\n".join(lines) + "\n"


def _refused(change: Kept, why: str) -> UserError:
    return UserError(f"The bundle of the run is refused: the patch of {change.id}: {why}.")
