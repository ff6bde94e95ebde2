"""The copy has everything, the original keeps everything."""

import os
from pathlib import Path

import pytest

from pitstop.bot.optimize.history import History, source_files
from pitstop.bot.optimize.workfolder import (
    checksums_of,
    copy_project,
    differences,
    mend_copy,
    open_work,
    survey,
)
from pitstop.rules.finding import UserError

MIB = 2**20


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    (root / "train.py").write_text("print('train')\n")
    (root / "data" / "set.bin").write_bytes(os.urandom(2 * MIB))
    (root / "run.sh").write_text("python train.py\n")
    (root / "run.sh").chmod(0o755)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[remote]\n")
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "x.pyc").write_bytes(b"x")
    return root


def test_the_copy_has_every_file_but_git_and_caches(project):
    work = open_work(project, None)
    assert work.root == project.parent / "project_optimized"
    copied = copy_project(work, 1 << 30)
    assert copied.files == 3
    assert sorted(copied.checksums) == ["data/set.bin", "run.sh", "train.py"]
    assert (work.project / "data/set.bin").read_bytes() == (project / "data/set.bin").read_bytes()
    assert os.access(work.project / "run.sh", os.X_OK)
    assert not (work.project / ".git").exists()
    assert copied.left_behind == (".git", "__pycache__")


def test_over_the_limit_nothing_is_copied_and_the_ways_out_are_named(project):
    work = open_work(project, None)
    with pytest.raises(UserError, match=r"--copy-limit.*--runner docker.*--link-data"):
        copy_project(work, MIB)
    assert not any(work.project.iterdir())


def test_with_linked_data_only_large_files_are_links(project):
    work = open_work(project, None)
    copied = copy_project(work, MIB, link_data=True)
    assert copied.linked == ("data/set.bin",)
    assert (work.project / "data/set.bin").is_symlink()
    assert not (work.project / "train.py").is_symlink()


def test_a_virtual_environment_is_linked_not_copied(project):
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "pyvenv.cfg").write_text("home = /usr\n")
    work = open_work(project, None)
    assert copy_project(work, 1 << 30).files == 3
    assert (work.project / ".venv").is_symlink()


def test_a_link_to_data_elsewhere_is_copied_through(project, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("a")
    (project / "linked").symlink_to(tmp_path / "elsewhere")
    (project / "self").symlink_to(project)
    work = open_work(project, None)
    copy_project(work, 1 << 30)
    assert not (work.project / "linked").is_symlink()
    assert (work.project / "linked" / "a.txt").read_text() == "a"


@pytest.mark.parametrize("out", ["project/out", ".", "project"])
def test_the_work_folder_lies_beside_the_project(project, out):
    with pytest.raises(UserError, match="beside"):
        open_work(project, project.parent / out)


def test_a_folder_of_somebody_else_is_refused(project, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="other things"):
        open_work(project, tmp_path / "theirs")
    assert (tmp_path / "theirs" / "thesis.tex").exists()


def test_reports_of_an_earlier_run_are_kept(project):
    for text in ("first", "second"):
        work = open_work(project, None)
        (work.reports / "final.md").write_text(text)
    work = open_work(project, None)
    assert (work.reports / "earlier-1" / "final.md").read_text() == "first"
    assert (work.reports / "earlier-2" / "final.md").read_text() == "second"


def test_what_changed_in_the_original_is_named(project):
    work = open_work(project, None)
    copied = copy_project(work, 1 << 30)
    assert differences(copied.checksums, checksums_of(project)) == ()
    (project / "train.py").write_text("other\n")
    (project / "run.sh").unlink()
    (project / "new.txt").write_text("x")
    assert differences(copied.checksums, checksums_of(project)) == (
        "new.txt: new",
        "run.sh: gone",
        "train.py: changed",
    )


def test_data_that_a_run_destroyed_come_back_and_new_files_stay(project):
    work = open_work(project, None)
    copied = copy_project(work, 1 << 30)
    (work.project / "data/set.bin").unlink()
    (work.project / "cache.bin").write_bytes(b"c")
    assert mend_copy(work, copied) == ("data/set.bin",)
    assert (work.project / "data/set.bin").read_bytes() == (project / "data/set.bin").read_bytes()
    assert (work.project / "cache.bin").exists()
    assert mend_copy(work, copied) == ()


def test_only_sources_are_in_the_history(project):
    assert source_files(project) == ("run.sh", "train.py")
    assert survey(project)[1] > 2 * MIB


def test_commits_switch_the_copy_and_leave_data_alone(project):
    work = open_work(project, None)
    copy_project(work, 1 << 30)
    history = History(work.project, work.history)
    base = history.begin()
    change = history.commit({"train.py": "print('fast')\n", "ds.json": "{}\n"}, "Faster\n\nWhy.")
    assert history.head == change
    history.switch(base)
    assert (work.project / "train.py").read_text() == "print('train')\n"
    assert not (work.project / "ds.json").exists()
    assert (work.project / "data/set.bin").stat().st_size == 2 * MIB
    history.switch(change)
    assert (work.project / "ds.json").read_text() == "{}\n"
    assert "+print('fast')" in history.patch(base, change)
    mails = history.mail(base, change)
    assert list(mails) == [change]
    assert "Subject: [PATCH] Faster" in mails[change]
    assert "ds.json" in mails[change]
    without = history.mail(base, change, without="ds.json")[change]
    assert "ds.json" not in without and "+print('fast')" in without
    assert not (work.project / ".git").exists()
