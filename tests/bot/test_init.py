"""`pitstop init`: what it writes, what it leaves alone, and what it says."""

import re
import shutil
import socket
from pathlib import Path

import pytest

from pitstop.bot.cli import main
from pitstop.bot.config import Config, load_config
from pitstop.bot.init import ACTION, MAX_JOBS, config_text, found_jobs
from pitstop.rules.facts import gather
from pitstop.rules.tree import DictTree

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "workflows"
SHA = "0123456789abcdef0123456789abcdef01234567"
TRAIN = """\
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
for batch in range(10):
    loss = model(torch.ones(2)).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    shutil.copytree(ROOT / "examples" / "train-project", folder)
    (folder / ".git").mkdir()
    return folder


def jobs_of(files: dict[str, str]) -> dict[str, str]:
    return {job.name: job.launch for job in found_jobs(gather(DictTree(files)).jobs)}


def written(folder: Path) -> dict[str, str]:
    paths = (folder / ".github").rglob("*.yml")
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def config(folder: Path) -> Config:
    return load_config((folder / ".github" / "pitstop.yml").read_text(), "pitstop.yml")


def test_jobs_and_workflows_are_written(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(repository)]) == 0
    files = written(repository)
    assert set(files) == {
        ".github/pitstop.yml",
        ".github/workflows/pitstop-review.yml",
        ".github/workflows/pitstop-fork-review.yml",
    }
    assert config(repository).jobs["train"].launch == "bash scripts/train.sh"
    said = capsys.readouterr().out
    assert said.count("written  ") == 3
    assert re.search(r"1\. In the workflow files, put the owner", said)
    assert "it holds 1 job found here" in said
    assert "run this again with --optimize" in said


def test_workflows_are_the_examples(repository: Path) -> None:
    assert main(["init", str(repository), "--optimize"]) == 0
    for name in ("review.yml", "fork-review.yml", "optimize.yml"):
        text = (EXAMPLES / name).read_text()
        assert ACTION in text
        assert (repository / ".github" / "workflows" / f"pitstop-{name}").read_text() == text


def test_action_is_filled_in(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(repository), "--optimize", "--action", f"acme/pitstop@{SHA}"]) == 0
    texts = [text for path, text in written(repository).items() if "workflows" in path]
    assert len(texts) == 3
    for text in texts:
        assert f"uses: acme/pitstop@{SHA}" in text
        assert ACTION not in text
    assert "zeros" not in capsys.readouterr().out


@pytest.mark.parametrize("action", ["acme/pitstop@v1", "pitstop", f"a/b/c@{SHA}", f"a/b@{SHA}0\n"])
def test_action_without_a_commit_is_refused(
    repository: Path, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(repository), "--action", action]) == 2
    assert "give all 40 digits" in capsys.readouterr().err
    assert not (repository / ".github").exists()


def test_second_run_changes_nothing(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", str(repository)])
    mine = repository / ".github" / "pitstop.yml"
    mine.write_text("goal: memory\n")
    before = written(repository)
    capsys.readouterr()
    assert main(["init", str(repository), "--optimize"]) == 0
    said = capsys.readouterr().out
    assert said.count("kept     ") == 3
    assert "written  .github/workflows/pitstop-optimize.yml" in said
    after = written(repository)
    assert {path: after[path] for path in before} == before


def test_configuration_of_the_other_ending_is_kept(repository: Path) -> None:
    (repository / ".github").mkdir()
    (repository / ".github" / "pitstop.yaml").write_text("goal: memory\n")
    assert main(["init", str(repository)]) == 0
    assert not (repository / ".github" / "pitstop.yml").exists()


def test_link_out_of_the_repository_is_not_followed(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / ".github").symlink_to(outside)
    assert main(["init", str(repository)]) == 2
    assert "leads out of" in capsys.readouterr().err
    assert not list(outside.iterdir())


def test_file_link_is_not_written_through(repository: Path, tmp_path: Path) -> None:
    (repository / ".github").mkdir()
    (repository / ".github" / "pitstop.yml").symlink_to(tmp_path / "elsewhere.yml")
    assert main(["init", str(repository)]) == 0
    assert not (tmp_path / "elsewhere.yml").exists()


def test_folder_inside_a_repository_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(repository / "scripts")]) == 2
    assert f"run `pitstop init {repository}`" in capsys.readouterr().err


def test_missing_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "no")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_network_is_not_used(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert main(["init", str(repository), "--optimize"]) == 0


def test_every_commented_key_is_valid() -> None:
    """Taking the `# ` away from a line of the configuration must give a valid one."""
    text = config_text(())
    bare = re.sub(r"^# (?=(  )*[a-z_]+:|  )", "", text, flags=re.M)
    found = load_config(bare, "pitstop.yml")
    assert found.jobs["train"].launch.startswith("torchrun")
    assert found.jobs["train"].data == {"/data": "/srv/data"}
    assert found.gpu == "H100"
    assert found.optimize.image == "train:latest"
    assert load_config(text, "pitstop.yml") == Config()


class TestJobs:
    def test_script_is_started_as_a_whole(self) -> None:
        launch = "torchrun --nproc_per_node 2 train.py --lr 1e-4\n"
        assert jobs_of({"run.sh": launch, "train.py": TRAIN}) == {"run": "bash run.sh"}

    def test_entry_without_a_launch_command(self) -> None:
        assert jobs_of({"train.py": TRAIN}) == {"train": "python train.py"}

    def test_command_of_a_workflow(self) -> None:
        text = "jobs:\n  a:\n    steps:\n      - run: torchrun train.py --lr '1e-4'\n"
        found = jobs_of({".github/workflows/nightly.yml": text, "train.py": TRAIN})
        assert found == {"nightly": "torchrun train.py --lr 1e-4"}

    def test_names_stay_apart(self) -> None:
        files = {f"{folder}/run.sh": "python train.py\n" for folder in ("a", "b", "c/b")}
        found = jobs_of({**files, "train.py": TRAIN})
        assert len(found) == 3
        assert found["run"] == "bash a/run.sh"
        assert found["b-run"] == "bash b/run.sh"

    def test_serving_is_no_job(self) -> None:
        assert jobs_of({"serve.sh": "vllm serve Qwen/Qwen2.5-7B\n"}) == {}

    def test_words_of_a_repository_stay_data(self) -> None:
        name = 'a"b: [*x] # $(y)/run it.sh'
        jobs = found_jobs(gather(DictTree({name: "python train.py\n", "train.py": TRAIN})).jobs)
        found = load_config(config_text(jobs), "pitstop.yml").jobs
        assert [job.launch for job in found.values()] == [job.launch for job in jobs]

    def test_long_list_is_cut(self) -> None:
        files = {f"run{i}.sh": "python train.py\n" for i in range(MAX_JOBS + 5)}
        jobs = found_jobs(gather(DictTree({**files, "train.py": TRAIN})).jobs)
        assert len(jobs) == MAX_JOBS + 5
        assert len(load_config(config_text(jobs), "pitstop.yml").jobs) == MAX_JOBS
