"""The gate: reads a command, decides whether it may run and what, and says so.

It runs on a hosted runner with a token, and nothing of the pull request is checked out. What it
decides leaves as outputs of its job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pitstop.bot import markdown, workflow
from pitstop.bot.config import PATHS, Config, OptimizeJob, load_config
from pitstop.bot.events import CommandGiven
from pitstop.bot.github_api import GitHub
from pitstop.bot.pulls import Comment, PullRequest
from pitstop.bot.settings import Settings
from pitstop.bot.stages.admission import Permission, Refused, bound_commit, permission_of
from pitstop.bot.stages.command import HELP, Cancel, Help, Optimize, Status, read_command
from pitstop.bot.stages.request import RunEnvironment, RunRequest
from pitstop.bot.stages.status import NOT_DONE, SEEN, Answer, last_answer, note, waiting
from pitstop.bot.summary import find_summary
from pitstop.rules.finding import UserError


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of a command: a request when something may run, `cancel` when the run that is on
    shall end, and what the job's log says."""

    log: str
    request: RunRequest | None = None
    cancel: bool = False

    def outputs(self) -> Mapping[str, str]:
        """The outputs of the gate's job."""
        request = self.request
        return {
            "go": str(request is not None).lower(),
            "cancel": str(self.cancel).lower(),
            "request": request.to_json() if request else "",
            "context": (request.environment.context_sha or "") if request else "",
            "number": str(request.number) if request else "",
            "sha": request.sha if request else "",
        }


def gate(settings: Settings, github: GitHub, event: CommandGiven) -> Decision:
    """Decide about a command and answer it. Raises ApiError when GitHub cannot be asked."""
    decision = _Gate(settings, github, event).decide()
    workflow.write_outputs(settings.output, decision.outputs())
    return decision


class _Gate:
    """One command on one pull request."""

    def __init__(self, settings: Settings, github: GitHub, event: CommandGiven) -> None:
        self._settings = settings
        self._github = github
        self._event = event
        self._answer = Answer(github, event.number, event.comment)

    def decide(self) -> Decision:
        command = read_command(self._event.text)
        config = self._config()
        permission = permission_of(
            self._event.author, config.optimize.users, self._github.permission
        )
        if isinstance(permission, Refused):
            # Strangers get one word under their own comment, and no more of our attention.
            return self._refuse(permission.sentence)
        match command:
            case Help(reason):
                return self._help(reason)
            case Status():
                return self._status()
            case Cancel():
                self._answer.say(note("cancelled", "The run that is on, if there is one, ends."))
                return Decision("cancel", cancel=True)
            case Optimize():
                return self._optimize(command, config, permission)

    def _config(self) -> Config:
        """The configuration of the default branch: neither the pull request's nor its base's."""
        branch = self._github.default_branch()
        for path in PATHS:
            text = self._github.file_text(path, branch)
            if text is not None:
                return load_config(text, f"{path} on {branch}")
        return Config()

    def _help(self, reason: str) -> Decision:
        said = f"{markdown.prose(reason)}\n\n" if reason else ""
        self._answer.say(note("what `/optimize` understands", f"{said}{HELP}"))
        if reason:
            self._answer.react(NOT_DONE)
        return Decision(reason or "help")

    def _status(self) -> Decision:
        last = last_answer(self._github.comments(self._event.number), self._event.comment)
        if last is None:
            text = "Nothing has been run on this pull request."
        else:
            first = last.body.lstrip("# ").partition("\n")[0]
            text = f"[{markdown.prose(first)}]({markdown.address(last.url)})"
        self._answer.say(note("status", text))
        return Decision("status")

    def _refuse(self, sentence: str) -> Decision:
        self._answer.say(note("not run", sentence))
        self._answer.react(NOT_DONE)
        return Decision(f"refused: {sentence}")

    def _optimize(self, command: Optimize, config: Config, permission: Permission) -> Decision:
        self._answer.react(SEEN)
        pull = self._github.pull(self._event.number)
        if pull.state != "open":
            return self._refuse("The pull request is closed.")
        sha = self._bound(pull, command)
        if isinstance(sha, Refused):
            return self._refuse(sha.sentence)
        chosen = chosen_job(command, config)
        if isinstance(chosen, Refused):
            return self._refuse(chosen.sentence)
        try:
            request = self._request(command, config, pull, sha, permission, *chosen)
        except ValueError as error:  # pydantic's too: a branch or value of a strange shape
            raise UserError(f"the request cannot be made: {error}") from error
        settings = self._settings
        page = f"{settings.server_url}/{settings.repository}/commit/{sha}"
        self._answer.say(waiting(sha, request.launch, settings.run_url, page))
        return Decision(f"{sha} may run", request)

    def _bound(self, pull: PullRequest, command: Optimize) -> str | Refused:
        comment = self._github.comment(self._event.comment)
        summary: Comment | None = None
        writes = False
        if command.sha is None and not pull.fork:
            summary = find_summary(self._github.comments(pull.number))
            answer = permission_of(pull.author, (), self._github.permission)
            writes = not isinstance(answer, Refused)
        return bound_commit(pull, command.sha, comment, summary, writes)

    def _request(
        self,
        command: Optimize,
        config: Config,
        pull: PullRequest,
        sha: str,
        permission: Permission,
        launch: str,
        name: str | None,
    ) -> RunRequest:
        job = config.jobs.get(name) if name else None
        minutes = (job.deadline if job else None) or config.optimize.deadline
        return RunRequest(
            repository=self._settings.repository,
            number=pull.number,
            sha=sha,
            head_ref=pull.head_ref,
            head_repository=pull.head_repository or self._settings.repository,
            base_ref=pull.base_ref,
            fork=pull.fork,
            comment=self._event.comment,
            commenter=self._event.author,
            permission=permission,
            launch=launch,
            job=name,
            goal=command.goal or ("throughput" if config.goal == "balanced" else config.goal),
            steps=command.steps or (job.steps if job else None),
            rounds=command.rounds,
            quick=command.quick,
            only=command.only,
            disable=command.disable,
            allow=(*config.allow, *command.allow),
            deadline=60 * minutes,
            language=config.language,
            environment=environment_of(config, job, self._context(config, job)),
        )

    def _context(self, config: Config, job: OptimizeJob | None) -> str | None:
        """The commit of the default branch that an image is to be built from."""
        if config.optimize.dockerfile is None or (job and job.image) or config.optimize.image:
            return None
        found = self._github.commit_of(self._github.default_branch())
        return found.sha if found else None


def chosen_job(command: Optimize, config: Config) -> tuple[str, str | None] | Refused:
    """The launch command to run, and the name of its job in the configuration if it has one."""
    names = ", ".join(markdown.code(name) for name in sorted(config.jobs)) or "none"
    if command.job is not None and command.job not in config.jobs:
        return Refused(
            f"The configuration on the default branch has no job {markdown.code(command.job)};"
            f" it has: {names}."
        )
    name = command.job
    if name is None and command.launch is None:
        if len(config.jobs) != 1:
            return Refused(
                "Say what to run: `/optimize --job NAME` for a job of `.github/pitstop.yml` on the"
                f" default branch (it has: {names}), or `/optimize -- torchrun ... train.py`."
            )
        (name,) = config.jobs
    launch = command.launch or config.jobs[name or ""].launch
    try:
        from pitstop.rules.launch import parse_command

        parse_command(launch)
    except UserError as error:
        return Refused(f"The launch command cannot be run: {markdown.prose(str(error))}")
    return launch, name


def environment_of(
    config: Config, job: OptimizeJob | None, context_sha: str | None = None
) -> RunEnvironment:
    """Where a job runs, as the default branch says. A command typed without a job gets the
    image, and nothing else of the runner's machine."""
    memory = config.optimize.memory
    return RunEnvironment(
        image=(job.image if job else None) or config.optimize.image,
        dockerfile=config.optimize.dockerfile if context_sha else None,
        context=config.optimize.context,
        context_sha=context_sha,
        packages=config.optimize.packages,
        memory=int(memory * 2**30) if memory else None,
        multinode=config.multinode,
        network=job.network if job else False,
        data=dict(job.data) if job else {},
        env=job.env if job else (),
        gpus=job.gpus if job else None,
    )
