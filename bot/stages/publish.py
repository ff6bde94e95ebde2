"""The publish stage: looks at what a run left, offers it, and answers the command.

It has a token and runs nothing of the bundle. Repository, pull request, commit and permission are
those of the gate's own output.
"""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.bot import git, workflow
from pitstop.bot.github_api import GitHub
from pitstop.bot.markdown import Markdown
from pitstop.bot.pulls import PullRequest
from pitstop.bot.settings import Settings
from pitstop.bot.stages.bundle import NAME, ReadBundle, read_run_bundle
from pitstop.bot.stages.follow_up import FollowUp, NotOpened, follow_up
from pitstop.bot.stages.offered import Offer, offers
from pitstop.bot.stages.page import answer_page, pull_page, pull_title
from pitstop.bot.stages.request import RunRequest, read_request
from pitstop.bot.stages.status import DONE, NOT_DONE, Answer, note
from pitstop.bot.summary import Summary
from pitstop.bot.transport import ApiError, Transport
from pitstop.rules.finding import UserError


@dataclass(frozen=True, slots=True)
class Published:
    """What was offered: the commits, and where they are. `why` says why there is no branch."""

    offered: tuple[Offer, ...] = ()
    where: FollowUp | None = None
    diffs: tuple[str, ...] = ()


def publish_stage(settings: Settings, github: GitHub, transport: Transport) -> int:
    """Publish what the run stage left. Raises UserError for a bundle that is refused, after it
    was told on the pull request."""
    request = read_request(settings.request)
    if request.repository.lower() != settings.repository.lower():
        raise UserError(
            f"INPUT_REQUEST is for {request.repository}, but this job is of {settings.repository}."
        )
    answer = Answer(github, request.number, request.comment)
    if settings.bundle is None or not (settings.bundle / NAME).exists():
        answer.say(
            note(
                "the run left no result", "It was cancelled, or its machine was lost; see its log."
            )
        )
        answer.react(NOT_DONE)
        print("The run left no bundle.", flush=True)
        return 0
    try:
        bundle = read_run_bundle(settings.bundle)
        if bundle.data.sha != request.sha:
            raise UserError("The bundle of the run is refused: it is of another commit.")
        published = _offered(settings, github, transport, request, bundle)
    except UserError as error:
        answer.say(note("the result is refused", str(error)))
        answer.react(NOT_DONE)
        raise
    page = answer_page(settings, request, bundle, published)
    answer.say(page)
    answer.react(DONE if bundle.data.outcome in ("kept", "nothing") else NOT_DONE)
    workflow.write_summary(settings.step_summary, Summary((page,), Markdown("")))
    print(workflow.log_line(bundle.data.verdict), flush=True)
    return 0


def _offered(
    settings: Settings,
    github: GitHub,
    transport: Transport,
    request: RunRequest,
    bundle: ReadBundle,
) -> Published:
    """Commits of the kept changes, on our branch where they may be."""
    if not bundle.patches:
        return Published()
    remote = git.Remote(settings.server_url, settings.repository, settings.token)
    with git.stored(
        remote, (request.sha,), number=request.number, workspace=None, transport=transport
    ) as store:
        offered = offers(store, request, bundle)
        diffs = tuple(
            bundle.patches[one.change.patch].decode("utf-8", "replace") for one in offered
        )
        pull = github.pull(request.number)
        if (reason := no_branch(pull, request)) is not None:
            return Published(offered, NotOpened(reason), diffs)
        before = git.references(remote, transport)
        body = pull_page(settings, github.viewer(), request, bundle, offered)
        where: FollowUp
        try:
            where = follow_up(
                github,
                remote,
                store,
                request,
                offered,
                pull_title(request, offered),
                body,
                transport,
            )
        except ApiError as error:
            where = NotOpened(f"GitHub did not take the branch or the pull request: {error}.")
        _tell_others(before, git.references(remote, transport), request)
        return Published(offered, where, diffs)


def no_branch(pull: PullRequest, request: RunRequest) -> str | None:
    """Why there may be no branch; asked again right before the push."""
    if request.fork or pull.fork:
        return (
            "The pull request comes from a fork, whose commits are not pushed to this repository:"
            " the changes stand here as patches."
        )
    if pull.state != "open":
        return "The pull request was closed meanwhile: the changes stand here as patches."
    if pull.head_sha != request.sha:
        return (
            f"The pull request has moved on to `{pull.head_sha[:12]}` since: the changes stand here"
            " as patches, and `/optimize` measures it anew."
        )
    return None


def _tell_others(before: dict[str, str], after: dict[str, str], request: RunRequest) -> None:
    """Say which other references moved meanwhile. Ours is the only one that a push names."""
    own = f"refs/heads/pitstop/pr-{request.number}"
    moved = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    for name in sorted(moved - {own}):
        print(workflow.log_line(f"{name} moved meanwhile, by somebody else."), flush=True)
