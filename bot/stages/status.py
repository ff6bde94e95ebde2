"""The answer to a command: one comment for each, edited as things go on, and reactions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.bot import markdown
from pitstop.bot.github_api import GitHub
from pitstop.bot.markdown import Markdown
from pitstop.bot.pulls import Comment
from pitstop.bot.transport import ApiError, ForbiddenError, OutOfTimeError

MAX_BODY = 65_000
_MARK = "<!-- pitstop:answer {} -->"
_MARKED = re.compile(r"<!-- pitstop:answer (\d+) -->\s*\Z")
"""At the very end, where no text from a repository can stand."""

SEEN, DONE, NOT_DONE = "eyes", "rocket", "confused"


@dataclass(slots=True)
class Answer:
    """The answer to the command in comment `command` on pull request `number`.

    However often a stage is repeated there is one comment of ours for one command. A stage that
    may not comment says nothing and goes on: the job's log has it.
    """

    github: GitHub
    number: int
    command: int
    _found: Comment | None = None
    _last: str = ""

    def say(self, text: Markdown) -> Comment | None:
        """Show this text from now on. Raises ApiError, but for a token that may not write."""
        mark = _MARK.format(self.command)
        body = text if len(text) <= MAX_BODY else text[: MAX_BODY - 60] + "\n\n*Cut off here.*"
        body = f"{body.rstrip()}\n\n{mark}"
        if body == self._last:
            return self._found
        try:
            self._found = self._found or self._already()
            if self._found is None:
                self._found = self.github.create_comment(self.number, body, self._already)
            elif self._found.body != body:
                self.github.edit_comment(self._found.id, body)
        except ForbiddenError:
            return None
        self._last = body
        return self._found

    def react(self, content: str) -> None:
        """Mark the command itself. An answer matters more: what GitHub says to this is ignored."""
        try:
            self.github.react(self.command, content)
        except OutOfTimeError:
            raise
        except ApiError:
            return

    def _already(self) -> Comment | None:
        mark = _MARK.format(self.command)
        comments = self.github.comments(self.number)
        return next((c for c in comments if c.ours and c.body.rstrip().endswith(mark)), None)


def last_answer(comments: Iterable[Comment], but: int) -> Comment | None:
    """The newest answer of ours to another command than that in the comment `but`."""
    found = None
    for one in comments:
        match = _MARKED.search(one.body) if one.ours else None
        if match and int(match[1]) != but and "pitstop:run" in one.body:
            found = one
    return found


def waiting(sha: str, launch: str, run_url: str | None, commit_url: str) -> Markdown:
    """What stands there until the run ends."""
    commit = markdown.link(markdown.code(sha[:7]), commit_url)
    page = f" Its log: {markdown.address(run_url)}" if run_url else ""
    return Markdown(
        f"### Pitstop: the run of {commit} is waiting or on\n\n"
        f"{markdown.fenced(launch, 'bash')}\n\n"
        "It measures the job as it is, tries one change at a time and keeps what is proved; the"
        f" result will stand here.{page}\n\n<!-- pitstop:run -->"
    )


def note(title: str, text: str) -> Markdown:
    """A short answer: `text` is Markdown of ours."""
    return Markdown(f"### Pitstop: {title}\n\n{text}")
