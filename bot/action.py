"""The GitHub Action: from a runner's environment to a review, and to an exit code.

Two stages where a token may not write (a pull request from a fork): this same program runs
there, leaves its findings in the job's summary and in a bundle, and stays green; a second run,
started by `workflow_run` with a token that may, posts the bundle.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pitstop.bot import git, privileges, workflow
from pitstop.bot.audit import AuditRequest, audit_tree, version
from pitstop.bot.bundle import Bundle, read_bundle
from pitstop.bot.config import PATHS, Config, load_config
from pitstop.bot.diff import Diff, confirmed
from pitstop.bot.events import (
    CommandGiven,
    Ignored,
    PullRequestChanged,
    PullRequestClosed,
    WorkflowRunCompleted,
    read_event,
)
from pitstop.bot.github_api import GitHub
from pitstop.bot.placement import Filter
from pitstop.bot.posting import Audited, Delivery, deliver
from pitstop.bot.pulls import PullRequest
from pitstop.bot.report import Report
from pitstop.bot.review import Policy
from pitstop.bot.settings import Settings, read_settings
from pitstop.bot.summary import verdict
from pitstop.bot.transport import ApiError, Clock, OutOfTimeError, Transport
from pitstop.bot.views import Links
from pitstop.bot.written import Written, write_files
from pitstop.rules.finding import Severity, UserError
from pitstop.rules.tree import GitTree, RepoTree

OK, FOUND = 0, 1

Auditor = Callable[[RepoTree, AuditRequest], Report]

MAX_EVENT_BYTES = 30_000_000


def main(environment: Mapping[str, str]) -> int:
    """Run as a step of a job. Raises UserError after telling it in the job's annotations."""
    try:
        privileges.become_owner(environment)
        return run(read_settings(environment))
    except UserError as error:
        print(f"::error title=Pitstop::{workflow.command_data(str(error))}", flush=True)
        raise


def run(settings: Settings, *, clock: Clock | None = None, audit: Auditor = audit_tree) -> int:
    """Do what the event asks for, and return the exit code: 1 when findings reach the
    threshold that the repository set. `clock` and `audit` are what a test may replace."""
    if settings.mode == "run":
        from pitstop.bot.stages.run import run_stage

        return run_stage(settings)
    transport = Transport(settings.time_limit, clock)
    github = GitHub(
        settings.repository,
        settings.token,
        transport,
        api_url=settings.api_url,
        graphql_url=settings.graphql_url,
        user_agent=f"pitstop/{version()}",
    )
    try:
        if settings.mode == "publish":
            from pitstop.bot.stages.publish import publish_stage

            return publish_stage(settings, github, transport)
        event = read_event(settings.event_name, _payload(settings.event_path))
        match event:
            case PullRequestChanged() if settings.mode in ("auto", "audit"):
                return _Run(settings, github, transport).review(event, audit)
            case WorkflowRunCompleted() if settings.mode in ("auto", "audit"):
                return _Run(settings, github, transport).publish(event)
            case PullRequestClosed() if settings.mode in ("auto", "audit"):
                from pitstop.bot.stages.follow_up import close_follow_up

                return _done(close_follow_up(github, event.number, event.merged))
            case CommandGiven() if settings.mode in ("auto", "gate"):
                from pitstop.bot.stages.gate import gate

                return _done(gate(settings, github, event).log)
            case CommandGiven() if settings.mode == "single":
                from pitstop.bot.stages.single import single_stage

                return single_stage(settings, github, transport, event)
            case Ignored():
                return _ignore(event.reason)
        return _ignore(f"mode {settings.mode} has nothing to do with {settings.event_name}")
    except ApiError as error:
        raise _in_words(error, settings) from error


def _payload(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_EVENT_BYTES:
            raise UserError(f"GITHUB_EVENT_PATH: {path} is too large for an event.")
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"GITHUB_EVENT_PATH: {path} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"GITHUB_EVENT_PATH: {path} is not JSON.") from error


def _ignore(reason: str) -> int:
    _say(f"Nothing to do: {reason}.")
    return OK


def _done(what: str) -> int:
    _say(f"{what[:1].upper()}{what[1:]}")
    return OK


def _say(text: str) -> None:
    print(workflow.log_line(text), flush=True)


def _in_words(error: ApiError, settings: Settings) -> UserError:
    """What the user can do about an answer that ended the run before there was a review."""
    if isinstance(error, OutOfTimeError):
        return UserError(f"GitHub did not answer in time ({error}); run the job again.")
    if error.status == 401:
        return UserError("GitHub does not accept the token; check the input `github-token`.")
    if error.status in (403, 404):
        return UserError(
            f"{settings.repository}: GitHub answers {error}; check that the pull request exists"
            " and that the token may read contents and pull requests."
        )
    return UserError(f"{settings.repository}: GitHub answers {error}; run the job again later.")


class _Run:
    """One run on one repository."""

    def __init__(self, settings: Settings, github: GitHub, transport: Transport) -> None:
        self._settings = settings
        self._github = github
        self._transport = transport

    def review(self, event: PullRequestChanged, audit: Auditor) -> int:
        """Audit a pull request and post the review."""
        pull = self._github.pull(event.number)
        config = self._config(pull)
        if reason := _skip(pull, config, event):
            return _ignore(reason)
        with self._stored(pull) as (head, base, merge_base, diff):
            request = dataclasses.replace(
                config.request(),
                base=base,
                renames=diff.renames,
                revision=pull.head_sha,
                base_revision=merge_base,
            )
            report = audit(head, request)
            policy = self._policy(config, suggestions=True)
            return self._finish(pull, config, report, diff, head, policy)

    def publish(self, event: WorkflowRunCompleted) -> int:
        """Post what the unprivileged first stage found."""
        if self._settings.bundle is None:
            raise UserError(
                "INPUT_BUNDLE is not set; give the input `bundle` the folder that the first"
                " stage's artifact was downloaded to."
            )
        bundle = read_bundle(self._settings.bundle)
        if bundle is None:
            return _ignore("the first stage left no bundle, so it has posted its review itself")
        pull = self._pull_of(event, bundle)
        if pull is None:
            return _ignore(f"no open pull request has its head at {event.head_sha[:7]} any more")
        config = self._config(pull)
        if reason := _skip(pull, config, None):
            return _ignore(reason)
        with self._stored(pull) as (head, _, _, diff):
            policy = self._policy(config, suggestions=False)
            return self._finish(pull, config, bundle.report, diff, head, policy)

    def _pull_of(self, event: WorkflowRunCompleted, bundle: Bundle) -> PullRequest | None:
        """The pull request that GitHub itself connects with the run. The bundle only chooses,
        where one branch has several."""
        found = [
            pull
            for pull in self._github.pulls_from(event.head_owner, event.head_branch)
            if pull.head_sha == event.head_sha and pull.base_repository == event.repository
        ]
        if not found:
            return None
        if bundle.head_sha != event.head_sha or bundle.report.revision != event.head_sha:
            raise UserError("The bundle of the first stage is refused: it is of another commit.")
        for pull in found:
            if pull.number == bundle.number:
                return pull
        raise UserError("The bundle of the first stage is refused: it is of another pull request.")

    def _config(self, pull: PullRequest) -> Config:
        """The configuration of the base branch; the pull request's own has no say."""
        for path in PATHS:
            text = self._github.file_text(path, pull.base_ref)
            if text is not None:
                return load_config(text, f"{path} on {pull.base_ref}")
        return Config()

    def _policy(self, config: Config, *, suggestions: bool) -> Policy:
        return Policy(
            wanted=Filter(config.review.filter),
            max_inline=config.review.max_inline,
            suggestions=suggestions,
            resolve=config.review.resolve,
            fail_on=_threshold(self._settings.fail_on or config.fail_on),
        )

    @contextmanager
    def _stored(self, pull: PullRequest) -> Iterator[tuple[GitTree, GitTree, str, Diff]]:
        """Head and merge base of a pull request as trees, and the diff between them."""
        settings, transport = self._settings, self._transport
        remote = git.Remote(settings.server_url, settings.repository, settings.token)
        comparison = self._github.compare(pull.base_sha, pull.head_sha)
        if comparison is not None:
            start = comparison.merge_base
        else:
            start = git.merge_base(remote, pull.base_sha, pull.head_sha, transport)
        commits = (start, pull.head_sha)
        with (
            git.stored(
                remote,
                commits,
                number=pull.number,
                workspace=settings.workspace,
                transport=transport,
            ) as store,
            store.tree(pull.head_sha) as head,
            store.tree(start) as base,
        ):
            diff = store.diff(start, pull.head_sha)
            if comparison is not None:
                diff = confirmed(diff, comparison.shown, comparison.complete)
            yield head, base, start, diff

    def _finish(
        self,
        pull: PullRequest,
        config: Config,
        report: Report,
        diff: Diff,
        head: GitTree,
        policy: Policy,
    ) -> int:
        """Post, and leave for the runner what a job leaves."""
        settings = self._settings
        links = Links(settings.server_url, settings.repository, pull.head_sha)
        audited = Audited(pull.number, report, diff, head, links, settings.run_url)
        delivery = deliver(self._github, audited, policy, check_run=config.review.check_run)
        written = write_files(settings, audited, delivery, with_sarif=config.review.sarif)
        self._tell(audited, delivery, written)
        worst = report.worst()
        if policy.fail_on is not None and worst is not None and worst >= policy.fail_on:
            return FOUND
        return OK

    def _tell(self, audited: Audited, delivery: Delivery, written: Written) -> None:
        review = delivery.review
        _say(f"#{audited.number} at {audited.sha[:7]}: {verdict(audited.report, review)}.")
        _say("The review is posted." if delivery.posted else "The review is not posted.")
        for remark in (*delivery.remarks, *written.remarks):
            _say(remark)
        if not delivery.check_posted:
            for line in workflow.annotation_lines(review.findings):
                print(line, flush=True)
        introduced = audited.report.introduced
        critical = sum(r.finding.severity is Severity.CRITICAL for r in introduced)
        workflow.write_outputs(
            self._settings.output,
            {
                "findings": str(len(introduced)),
                "critical": str(critical),
                "report": written.report,
                "bundle": written.bundle,
            },
        )
        summary = audited.summary(review, review.findings, (*delivery.remarks, *written.remarks))
        workflow.write_summary(self._settings.step_summary, summary)


def _threshold(word: str) -> Severity | None:
    return None if word == "never" else Severity[word.upper()]


def _skip(pull: PullRequest, config: Config, event: PullRequestChanged | None) -> str | None:
    """Why a pull request is left alone."""
    label = config.review.skip_label
    if pull.state != "open":
        return "the pull request is closed"
    if pull.draft and not config.review.drafts:
        return "the pull request is a draft"
    if label and label in pull.labels:
        return f"the pull request has the label {label!r}"
    if event is not None and event.by_bot:
        return "the event was caused by a bot"
    return None
