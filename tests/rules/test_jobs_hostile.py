from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitstop.rules.facts import gather
from pitstop.rules.finding import Unknown
from pitstop.rules.tree import DictTree

REPOS = Path(__file__).parents[1] / "repos"
SAMPLES = ("hf-clm", "llamafactory-sft", "torch-vision", "trl-sft", "deepspeed-loop")
FILES = {
    f"{name}/{path.relative_to(REPOS / name).as_posix()}": path.read_text()
    for name in SAMPLES
    for path in sorted((REPOS / name).rglob("*"))
    if path.is_file()
}
BITS = st.sampled_from(
    ["", "\0", "\r", "\t", "$", "${", "$(", "'", '"', "\\", "{", "}", "[", "&a", "*a", ": ", "#",
     "=", "None", "True", "-", "--", "1e999", "é", "\udc80", "(", "\n", "auto", "!!python/object:x"]
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(FILES)), st.integers(0, 2000), st.integers(0, 12), BITS)
def test_any_damage_to_one_file_is_survived(path: str, at: int, length: int, bit: str) -> None:
    text = FILES[path]
    start = at % (len(text) + 1)
    damaged = text[:start] + bit + text[start + length :]
    facts = gather(DictTree({**FILES, path: damaged}))
    for job in facts.jobs:
        for setting in job.written():
            if setting.value_at is not None and setting.value_at.path in FILES:
                assert setting.value_at.span.start <= setting.value_at.span.end
        for found in job.settings.values():
            assert found, "a knob without a setting is not listed"


def test_files_that_lead_to_each_other_end() -> None:
    files = {
        "a.sh": "bash b.sh\npython train.py\n",
        "b.sh": "bash a.sh\n",
        "train.py": "import torch\nimport other\nfor b in x:\n    loss.backward()\n",
        "other.py": "import torch\nimport train\n",
        "z.json": '{"zero_optimization": {}, "deepspeed": "z.json"}',
        "run.sh": "accelerate launch --config_file acc.yaml train.py\n",
        "acc.yaml": "distributed_type: DEEPSPEED\nnum_processes: 2\n"
        "deepspeed_config: {deepspeed_config_file: acc.yaml}\n",
    }
    assert gather(DictTree(files)).jobs


def test_a_launch_with_ten_thousand_words_is_read() -> None:
    flags = " ".join(f"--flag{i} {i}" for i in range(5_000))
    files = {
        "run.sh": f"python train.py {flags} --lr 1\n",
        "train.py": "import torch\nfor b in x:\n    loss.backward()\n",
    }
    assert len(gather(DictTree(files)).jobs) == 1


def test_paths_out_of_the_tree_are_not_followed() -> None:
    files = {
        "run.sh": "llamafactory-cli train ../../etc/x.yaml deepspeed=/etc/passwd.json\n",
    }
    (job,) = gather(DictTree(files)).jobs
    assert job.configs == ()
    assert isinstance(job.value("dataloader.workers"), Unknown)
