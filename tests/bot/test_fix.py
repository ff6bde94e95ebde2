"""`pitstop fix` on real folders: what is shown, written, left out, and refused."""

from pathlib import Path

import pytest

from pitstop.bot.apply import SnapshotTree, write_patches
from pitstop.bot.cli import main
from pitstop.rules.finding import Span, UserError
from pitstop.rules.tree import FolderTree
from pitstop.transforms.patch import Edit, Patch

TRAIN = """\
import torch
from project import Net, loader

model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
total = 0.0
for batch in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss
    torch.cuda.empty_cache()
"""
SAFE = TRAIN.replace("total += loss", "total += loss.detach()")
ALL = SAFE.replace("    torch.cuda.empty_cache()\n", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def fix(folder: Path, *words: str) -> str:
    assert main(["fix", str(folder), *words]) == 0
    return (folder / "train.py").read_text()


def test_only_safe_fixes_are_applied_by_themselves(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fix(folder) == SAFE
    said = capsys.readouterr()
    assert "+    total += loss.detach()" in said.out
    assert "applied 1 of 2 fixes, in 1 file\n" in said.err
    assert "1 change numbers or need a measured run: add --unsafe" in said.err


def test_unsafe_ones_when_asked_for_and_nothing_the_second_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fix(folder, "--unsafe") == ALL
    capsys.readouterr()
    assert fix(folder, "--unsafe") == ALL
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "pitstop: applied 0 of 0 fixes, in 0 files\n"


def test_a_diff_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fix(folder, "--unsafe", "--diff") == TRAIN
    said = capsys.readouterr()
    assert "-    torch.cuda.empty_cache()" in said.out
    assert "would apply 2 of 2 fixes" in said.err


def test_rules_can_be_selected(folder: Path) -> None:
    assert fix(folder, "--unsafe", "--select", "cache-emptied-each-step") == TRAIN.replace(
        "    torch.cuda.empty_cache()\n", ""
    )


def test_recipes_can_be_selected(folder: Path) -> None:
    after = fix(folder, "--unsafe", "--select", "compile-model")
    assert after == TRAIN.replace("cuda()\nopt", "cuda()\nmodel.compile()\nopt")


def test_a_recipe_that_changes_numbers_waits_for_unsafe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fix(folder, "--select", "tf32") == TRAIN
    assert "add --unsafe" in capsys.readouterr().err


def test_a_refusal_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fix(folder, "--unsafe", "--select", "eight-bit-optimizer")
    assert (
        "eight-bit-optimizer at train.py not fixed: bitsandbytes does not take fused"
        in capsys.readouterr().err
    )


def test_two_changes_that_insert_at_one_place_are_made_in_order(folder: Path) -> None:
    """Both recipes put a statement behind the imports."""
    text = TRAIN.replace("Net().cuda()", "torch.nn.Conv2d(3, 3, 3).cuda()").replace(
        "model = ", "crop = torchvision.transforms.CenterCrop(32)\nmodel = "
    )
    text = text.replace("import torch\n", "import torch\nimport torchvision\n", 1)
    (folder / "train.py").write_text(text)
    words = ("--unsafe", "--select", "tf32,cudnn-benchmark")
    once = fix(folder, *words)
    first, second = once.index("set_float32_matmul_precision"), once.index("cudnn.benchmark = True")
    assert first < second
    assert fix(folder, *words) == once


def test_an_unknown_word_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", str(folder), "--select", "nonsense"]) == 2
    assert "'nonsense' means no rule" in capsys.readouterr().err


def test_a_file_that_changed_meanwhile_is_not_written(folder: Path) -> None:
    tree = SnapshotTree(FolderTree(folder))
    file = tree.read("train.py")
    patch = Patch((Edit.replace(file, Span(0, 6), "import"),))
    (folder / "train.py").write_text("# newer\n" + TRAIN)
    with pytest.raises(UserError, match="changed while it was being read"):
        write_patches(tree, [patch])
    assert (folder / "train.py").read_text() == "# newer\n" + TRAIN


def test_fixes_that_are_right_alone_but_wrong_together_are_a_bug_of_ours(folder: Path) -> None:
    tree = SnapshotTree(FolderTree(folder))
    file = tree.read("train.py")
    patch = Patch((Edit.replace(file, Span(0, 6), "import import"),))
    with pytest.raises(SyntaxError):
        write_patches(tree, [patch])
    assert (folder / "train.py").read_text() == TRAIN


def test_a_row_of_the_plans_is_made_when_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve model --enforce-eager --max-num-seqs 16\n")
    assert main(["fix", str(tmp_path), "--select", "vl-requests,sg-graphs", "--unsafe"]) == 0
    assert script.read_text() == "vllm serve model --enforce-eager --max-num-seqs 256\n"
    assert "applied 1 of 1 fixes" in capsys.readouterr().err
    assert main(["fix", str(tmp_path), "--select", "vl-requests", "--unsafe"]) == 0
    said = capsys.readouterr().err
    assert "vl-requests at serve.sh:1:1 not fixed: the job is not one that it is for" in said
