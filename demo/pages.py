"""A pull request as a web page."""

from __future__ import annotations

from demo.state import World
from demo.wire import Answer, Request


def page(world: World, request: Request) -> Answer:
    """The page of an address."""
    return Answer(404, "not yet\n")
