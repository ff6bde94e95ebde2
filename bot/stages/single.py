"""Gate, run and publish in one job: for private repositories whose writers are all trusted.

There is no wall here: the job that holds the token starts the training. The container still gets
no token and no network, but what escapes from it meets the token.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

from pitstop.bot import git, markdown
from pitstop.bot.events import CommandGiven
from pitstop.bot.github_api import GitHub
from pitstop.bot.markdown import Markdown
from pitstop.bot.settings import Settings
from pitstop.bot.stages.gate import gate
from pitstop.bot.stages.publish import publish_stage
from pitstop.bot.stages.request import RunRequest
from pitstop.bot.stages.run import stopped_by_signals, work
from pitstop.bot.stages.status import Answer, waiting
from pitstop.bot.transport import ApiError, Transport

PAUSE = 20.0
"""Seconds between two edits of the answer while the run is on."""


def single_stage(
    settings: Settings, github: GitHub, transport: Transport, event: CommandGiven
) -> int:
    """Everything about one command, with the answer edited while the run is on."""
    request = gate(settings, github, event).request
    if request is None:
        return 0
    remote = git.Remote(settings.server_url, settings.repository, settings.token)
    project = settings.workspace / settings.folder
    with git.stored(
        remote, (request.sha,), number=request.number, workspace=None, transport=transport
    ) as store:
        git.check_out(store, request.sha, project)
    cancel = threading.Event()
    say = _teller(settings, Answer(github, request.number, request.comment), request)
    with stopped_by_signals(cancel):
        folder = work(settings, request, project, cancel=cancel, say=say)
    after = Transport(settings.time_limit)  # the run has used up the time that the gate had
    told = dataclasses.replace(settings, request=request.to_json(), bundle=folder)
    return publish_stage(told, github.through(after), after)


def _teller(settings: Settings, answer: Answer, request: RunRequest) -> Callable[[str], None]:
    """Writes what is being done into the job's log, and now and then into the answer. A GitHub
    that does not take it stops nothing."""
    page = f"{settings.server_url}/{settings.repository}/commit/{request.sha}"
    began = time.monotonic()
    last = [began - PAUSE]

    def say(text: str) -> None:
        from pitstop.bot.workflow import log_line

        print(log_line(text), flush=True)
        now = time.monotonic()
        if now - last[0] < PAUSE:
            return
        last[0] = now
        body = waiting(request.sha, request.launch, settings.run_url, page)
        minutes = f"{(now - began) / 60:.0f}"
        done = f"After {minutes} minutes: {markdown.prose(text)}"
        try:
            answer.say(
                Markdown(body.replace("<!-- pitstop:run -->", f"{done}\n\n<!-- pitstop:run -->"))
            )
        except ApiError:
            return

    return say
