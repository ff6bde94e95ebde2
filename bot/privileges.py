"""Root, given up before anything from a repository is read.

GitHub starts a Docker action as root and mounts the workspace, the home folder and the files for
outputs and summaries with the runner's own user as owner (1001 on its hosted machines, any other
on one's own). The image therefore starts as root, looks who owns the workspace and becomes that
user. Where root owns the workspace, as under nektos/act run by root, nobody else could write the
outputs: then root stays, inside the container.

The stages that start jobs keep one thing: the group of the docker socket, if one is mounted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pitstop.rules.finding import UserError


def become_owner(environment: Mapping[str, str]) -> None:
    """In the action's image only: become the owner of the workspace, for good."""
    if environment.get("PITSTOP_IMAGE") != "1" or os.geteuid() != 0:
        return
    workspace = environment.get("GITHUB_WORKSPACE", "")
    try:
        owner = os.stat(workspace)  # noqa: PTH116 - "" must fail, where Path("") is "."
    except OSError as error:
        raise UserError(
            f"GITHUB_WORKSPACE is {workspace!r}, which is no folder; run as a GitHub Action."
        ) from error
    if owner.st_uid == 0:
        return
    os.setgroups(_socket_group(environment))
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def _socket_group(environment: Mapping[str, str]) -> list[int]:
    if environment.get("INPUT_MODE") not in ("run", "single"):
        return []
    try:
        return [os.stat("/var/run/docker.sock").st_gid]  # noqa: PTH116
    except OSError:
        return []
