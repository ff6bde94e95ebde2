"""Root is given up in a process of its own, since it cannot be had back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os
from pitstop.bot.privileges import become_owner
become_owner(os.environ)
print(os.getresuid(), os.getresgid(), os.getgroups())
try:
    os.setuid(0)
    print("root again")
except PermissionError:
    print("no way back")
"""

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as the action's image has")


def become(folder: Path, *, image: bool = True) -> tuple[int, str]:
    environment = {"PATH": os.environ["PATH"], "GITHUB_WORKSPACE": str(folder)}
    environment |= {"PITSTOP_IMAGE": "1"} if image else {}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@root_only
def test_owner_of_the_workspace_for_good(tmp_path: Path) -> None:
    os.chown(tmp_path, 1001, 127)
    assert become(tmp_path) == (0, "(1001, 1001, 1001) (127, 127, 127) []\nno way back\n")


@root_only
def test_root_where_root_owns_it(tmp_path: Path) -> None:
    code, out = become(tmp_path)
    assert code == 0
    assert out.startswith("(0, 0, 0) (0, 0, 0) ")


@root_only
def test_nothing_outside_of_the_image(tmp_path: Path) -> None:
    os.chown(tmp_path, 1001, 1001)
    assert become(tmp_path, image=False)[1].startswith("(0, 0, 0)")


@root_only
@pytest.mark.parametrize("name", ["", "nowhere"])
def test_no_workspace_is_an_error_not_a_root_run(tmp_path: Path, name: str) -> None:
    code, out = become(tmp_path / name if name else Path("/nonexistent"))
    assert code == 1
    assert "UserError: GITHUB_WORKSPACE is" in out
