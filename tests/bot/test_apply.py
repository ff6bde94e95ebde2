import stat
from pathlib import Path

import pytest

from pitstop.bot.apply import SnapshotTree, apply_safe, fixable, write_all
from pitstop.bot.report import ReportedFinding
from pitstop.rules.finding import (
    Confidence,
    Finding,
    Fix,
    Location,
    Priority,
    Safety,
    Severity,
    Span,
    UserError,
)
from pitstop.rules.tree import FolderTree
from pitstop.transforms.patch import Changed, Edit, Outcome, Patch, Refused


def reported(
    outcome: Outcome, *, safety: Safety = Safety.SAFE, path: str = "run.sh", line: int = 1
) -> ReportedFinding:
    finding = Finding(
        rule="GEN-F01",
        name="n",
        title="t",
        severity=Severity.WARNING,
        priority=Priority.LOW,
        confidence=Confidence.HIGH,
        resource="time",
        primary=Location(path, Span(0, 1), line, 1, line, 2),
        message="",
        cost="",
        source="",
        leave_when="",
        advice="",
        fix=Fix("set_knob", {}, safety, "change it"),
    )
    return ReportedFinding(finding, outcome)


def change(path: str, start: int, old: str, new: str) -> Changed:
    return Changed(Patch((Edit(path, Span(start, start + len(old)), old, new),)))


def snapshot(root: Path, **files: bytes) -> SnapshotTree:
    for name, data in files.items():
        (root / name.replace("_", ".")).write_bytes(data)
    return SnapshotTree(FolderTree(root))


def test_only_safe_fixes_that_exist_are_fixable() -> None:
    safe = reported(change("run.sh", 0, "a", "b"))
    risky = reported(change("run.sh", 0, "a", "b"), safety=Safety.VERIFY)
    assert fixable([safe, risky, reported(Refused("no"))]) == (safe,)


def test_all_other_bytes_stay(tmp_path: Path) -> None:
    before = b"\xef\xbb\xbf--w 0\r\n# caf\xe9\r\nend"
    tree = snapshot(tmp_path, run_sh=before)
    applied = apply_safe(tree, [reported(change("run.sh", 5, "0", "4"))])
    assert (tmp_path / "run.sh").read_bytes() == before.replace(b"0", b"4")
    assert applied.paths == ("run.sh",)
    assert applied.diff.startswith("--- a/run.sh\n+++ b/run.sh\n@@ -1,3 +1,3 @@\n")


def test_mode_and_symbolic_link_are_kept(tmp_path: Path) -> None:
    tree = snapshot(tmp_path, real_sh=b"0")
    (tmp_path / "real.sh").chmod(0o755)
    (tmp_path / "link.sh").symlink_to("real.sh")
    apply_safe(SnapshotTree(FolderTree(tmp_path)), [reported(change("link.sh", 0, "0", "4"))])
    assert (tmp_path / "link.sh").is_symlink()
    assert (tmp_path / "real.sh").read_bytes() == b"4"
    assert stat.S_IMODE((tmp_path / "real.sh").stat().st_mode) == 0o755
    assert tree.root == tmp_path


def test_a_file_that_changed_since_it_was_read_stops_everything(tmp_path: Path) -> None:
    tree = snapshot(tmp_path, a_sh=b"0", b_sh=b"0")
    assert (tree.read("a.sh").text, tree.read("b.sh").text) == ("0", "0")
    (tmp_path / "b.sh").write_text("0 # newer")
    fixes = [reported(change("a.sh", 0, "0", "4")), reported(change("b.sh", 0, "0", "4"))]
    with pytest.raises(UserError, match=r"^b\.sh changed while it was being read"):
        apply_safe(tree, fixes)
    assert (tmp_path / "a.sh").read_text() == "0"
    assert (tmp_path / "b.sh").read_text() == "0 # newer"


def test_a_file_that_vanished_stops_everything(tmp_path: Path) -> None:
    tree = snapshot(tmp_path, a_sh=b"0")
    tree.read("a.sh")
    assert tree.paths
    (tmp_path / "a.sh").unlink()
    with pytest.raises(UserError, match=r"^a\.sh changed"):
        apply_safe(tree, [reported(change("a.sh", 0, "0", "4"))])


def test_the_second_of_two_overlapping_fixes_is_a_conflict(tmp_path: Path) -> None:
    tree = snapshot(tmp_path, a_sh=b"abc")
    first, second = reported(change("a.sh", 0, "ab", "x")), reported(change("a.sh", 1, "bc", "y"))
    applied = apply_safe(tree, [first, second])
    assert (tmp_path / "a.sh").read_text() == "xc"
    assert applied.fixed == (first,)
    assert applied.conflicts == ((second, "a.sh: overlaps an earlier change"),)


def test_a_new_file_is_created_and_stands_in_the_diff(tmp_path: Path) -> None:
    tree = snapshot(tmp_path, a_sh=b"0")
    patch = Patch((), new_files=(("ds.json", "{}\n"),))
    applied = apply_safe(tree, [reported(Changed(patch))])
    assert (tmp_path / "ds.json").read_text() == "{}\n"
    assert "+{}" in applied.diff


def test_nothing_to_fix_writes_nothing(tmp_path: Path) -> None:
    tree = snapshot(tmp_path, a_sh=b"0")
    assert apply_safe(tree, []).diff == ""


def test_no_file_is_changed_when_one_cannot_be_staged(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("old")
    with pytest.raises(UserError, match="no file was changed"):
        write_all(tmp_path, {"a.sh": "new", "missing/b.sh": "new"})
    assert (tmp_path / "a.sh").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.sh"]


def test_files_already_written_are_put_back_when_a_later_one_fails(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("old")
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match="no file was changed"):
        write_all(tmp_path, {"a.sh": "new", "b": "a folder stands here"})
    assert (tmp_path / "a.sh").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sh", "b"]
