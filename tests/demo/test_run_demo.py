"""`make demo`, as a person runs it: a review appears, and the places named exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from demo.gitrepo import BareRepo
from demo.hunks import read_diff
from demo.run_demo import PROJECT, main
from demo.slower import project_files, slower_files

ROOT = Path(__file__).parents[2]


def test_the_demo_shows_a_review(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path / "demo")]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "Summary by github-actions[bot]" in shown
    assert "Suggested change:" in shown
    places = re.findall(r"^── (\S+):[\d-]+ ─", shown, re.MULTILINE)
    assert {Path(place).suffix for place in places} == {".sh", ".yaml", ".json", ".py"}
    for address in re.findall(r"file://\S+", shown):
        assert Path(unquote(urlsplit(address).path)).exists(), address


def test_the_demo_says_so_when_no_review_appears(tmp_path: Path) -> None:
    # A folder before it on the path in which Pitstop's module ends at once.
    broken = tmp_path / "pitstop"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise SystemExit('nothing works')\n")
    command = [sys.executable, str(ROOT / "demo" / "run_demo.py"), "--folder", str(tmp_path / "d")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == 1
    assert "No review appeared." in done.stdout and "nothing works" in done.stdout


def test_the_pull_request_touches_every_surface(tmp_path: Path) -> None:
    files = project_files(PROJECT)
    repo = BareRepo.create(tmp_path / "r.git")
    old = repo.commit_files("main", files, "old", when=1)
    new = repo.commit_files("main", slower_files(files), "new", when=2)
    changed = {Path(file.path).suffix for file in read_diff(repo.diff_text(old, new))}
    assert changed == {".sh", ".yaml", ".json", ".py"}
