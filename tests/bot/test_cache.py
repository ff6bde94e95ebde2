"""An audit of what has not changed is not made again; one of what has, always is."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from pitstop.bot import cache, cli, local

SLOW = "torchrun train.py --bf16 True --output_dir out --dataloader_num_workers {}\n"
TRAIN = "from transformers import Trainer, TrainingArguments, HfArgumentParser\nTrainer()\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "run.sh").write_text(SLOW.format(0))
    return folder


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows with each audit that is really made."""
    made: list[object] = []
    real = local.audit_tree

    def counted(*args: object, **more: object) -> object:
        made.append(args)
        return real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(local, "audit_tree", counted)
    return made


def audit(project: Path, *options: str) -> int:
    return cli.main(["audit", str(project), *options])


@pytest.mark.parametrize("options", [(), ("--format", "json"), ("--format", "sarif"),
                                     ("--format", "md"), ("--fail-on", "info")])  # fmt: skip
def test_the_second_says_the_same(
    project: Path,
    audits: list[object],
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:
    first = audit(project, *options), capsys.readouterr().out
    second = audit(project, *options), capsys.readouterr().out
    assert first == second
    assert first[1]
    assert len(audits) == 1


def rewritten(project: Path) -> None:
    """Other content of the same size and time."""
    file = project / "run.sh"
    before = file.stat()
    file.write_text(SLOW.format(4))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        rewritten,
        lambda project: (project / "run.sh").unlink(),
        lambda project: (project / "new.sh").write_text(SLOW.format(2)),
        lambda project: (project / "train.py").write_text("\0binary"),
        lambda project: (project / "train.py").write_bytes(b"x" * 3_000_000),
        lambda project: (project / "requirements.txt").write_text("transformers==4.40.0\n"),
        lambda project: (
            (project / ".github").mkdir(),
            (project / ".github" / "pitstop.yml").write_text("ignore: [HF]\n"),
        ),
    ],
)
def test_any_change_is_audited(project: Path, audits: list[object], change: object) -> None:
    audit(project)
    change(project)  # type: ignore[operator]
    audit(project)
    assert len(audits) == 2
    audit(project)
    assert len(audits) == 2


@pytest.mark.parametrize(
    "options", [("--gpu", "H100"), ("--goal", "memory"), ("--ignore", "HF"), ("--no-cache",),
                ("--fix", "safe"), ("--format", "json")]
)  # fmt: skip
def test_other_options_are_another_audit(
    project: Path, audits: list[object], options: tuple[str, ...]
) -> None:
    audit(project)
    audit(project, *options)
    assert len(audits) == 2


def test_another_program_is_another_audit(
    project: Path, audits: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    audit(project)
    monkeypatch.setattr(cache, "program", lambda: "newer")
    audit(project)
    assert len(audits) == 2


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"read": 1}', '{"read": {}, "text": 1, "code": 0}', "null"]
)
def test_a_damaged_entry_is_none(project: Path, audits: list[object], damage: str) -> None:
    audit(project)
    (entry,) = (project.parent / "cache" / "pitstop").glob("*.json")
    entry.write_text(damage)
    audit(project)
    assert len(audits) == 2
    assert json.loads(entry.read_text())["code"] == 0


def test_a_folder_that_cannot_be_written_is_none(project: Path, audits: list[object]) -> None:
    (project.parent / "cache").write_text("a file")
    assert audit(project) == 0
    assert audit(project) == 0
    assert len(audits) == 2


def test_entries_are_few(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_ENTRIES", 3)
    for n in range(6):
        audit(project, "--gpu", "H100", "--nodes", str(n + 1))
    assert len(list((project.parent / "cache" / "pitstop").iterdir())) == 3


def test_many_at_once_see_whole_entries(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    states = {"a": cache._state(tmp_path, "a")}
    found: list[cache.Printed | None] = []

    def work(number: int) -> None:
        for _ in range(30):
            cache.keep(tmp_path / "c", "key", states, cache.Printed("words" * 5000, number))
            found.append(cache.find(tmp_path / "c", "key", tmp_path))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one is not None and one.text == "words" * 5000 for one in found)
