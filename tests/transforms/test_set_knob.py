# ruff: noqa: E501 (a case is one line)
"""One knob changed in small repositories, on every surface; the repository is read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.finding import Scalar
from pitstop.rules.tree import DictTree
from pitstop.transforms.patch import Changed, Outcome, Refused, Unchanged, apply_patches
from pitstop.transforms.set_knob import set_knob, unset_knob

HF = "from transformers import Trainer, TrainingArguments\n"
PARSER = (
    "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    "args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
    "Trainer(args=args).train()\n"
)
LOOP = "\nfor x in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"
TORCH = "import torch\nfrom torch.utils.data import DataLoader\n"
LF = (
    "### model\nmodel_name_or_path: Qwen/Qwen2.5-7B\n\n### method\nstage: sft\ndo_train: true\nfinetuning_type: lora\n\n"
    "### dataset\ndataset: identity\ntemplate: qwen\ncutoff_len: 2048\n\n"
    "### train\nper_device_train_batch_size: 1\n{}learning_rate: 1.0e-4\n\n### eval\neval_steps: 500\n"
)
HEREDOC = (
    'cat > ds.json <<\'EOF\'\n{{\n  "zero_optimization": {{"stage": {}{}}}\n}}\nEOF\n'
    "torchrun train.py --output_dir out --deepspeed ds.json\n"
)


@dataclass(frozen=True)
class Case:
    """`files` before; `changed` afterwards: only the files that differ."""

    files: Mapping[str, str]
    knob: str
    value: Scalar
    changed: Mapping[str, str] = field(default_factory=dict)


def lf(lines: str) -> dict[str, str]:
    return {"sft.yaml": LF.format(lines)}


def hf(flags: str, **files: str) -> dict[str, str]:
    return {"run.sh": f"torchrun train.py --output_dir out{flags}\n", "train.py": PARSER, **files}


def code(call: str, head: str = TORCH) -> dict[str, str]:
    return {"train.py": f"{head}{call}{LOOP}"}


OWN_OPTIONS = (
    "import argparse\nfrom transformers import Trainer, TrainingArguments\np = argparse.ArgumentParser()\n"
    "p.add_argument('--workers', type=int, default=1)\na = p.parse_args()\n"
    "Trainer(args=TrainingArguments('out', dataloader_num_workers=a.workers, **kw)).train()\n"
)

SWITCH = code(
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x')\n"
    "p.add_argument('--pin', action='store_true')\nargs = p.parse_args()\n"
    "loader = DataLoader(ds, pin_memory=args.pin)\n"
)

CHANGED = {
    "yaml key": Case(lf("bf16: false\n"), "precision.compute", "bf16", lf("bf16: true\n")),
    "yaml key that is missing goes beside its kin": Case(
        lf(""), "batch.accumulation", 4,
        {"sft.yaml": LF.format("gradient_accumulation_steps: 4\n")}),
    "yaml, one name instead of another": Case(
        lf("fp16: true\n"), "precision.compute", "bf16", lf("bf16: true\n")),
    "yaml, both names are there": Case(
        lf("fp16: true\nbf16: false\n"), "precision.compute", "bf16", lf("fp16: false\nbf16: true\n")),
    "yaml, what the default does already": Case(
        lf("fp16: true\n"), "precision.compute", "fp32", lf("fp16: false\n")),
    "yaml, own word of the framework": Case(
        lf("flash_attn: fa2\n"), "attention.backend", "sdpa", lf("flash_attn: sdpa\n")),
    "yaml, word that would be misread": Case(
        lf("save_strategy: steps\n"), "save.strategy", "no", lf('save_strategy: "no"\n')),
    "flag": Case(hf(" --logging_steps 1"), "log.steps", 10, {"run.sh": "torchrun train.py --output_dir out --logging_steps 10\n"}),
    "flag, small number": Case(
        hf(" --learning_rate 1e-4"), "training.learning_rate", 2e-5, {"run.sh": "torchrun train.py --output_dir out --learning_rate 2e-05\n"}),
    "flag, bare boolean": Case(
        hf(" --tf32"), "precision.tf32", False, {"run.sh": "torchrun train.py --output_dir out --tf32 False\n"}),
    "flag, letter case of a boolean": Case(
        hf(" --tf32 true"), "precision.tf32", False, {"run.sh": "torchrun train.py --output_dir out --tf32 false\n"}),
    "flag, one name instead of another": Case(
        hf(" --fp16 True"), "precision.compute", "bf16", {"run.sh": "torchrun train.py --output_dir out --bf16 True\n"}),
    "flag, one bare name instead of another": Case(
        hf(" --fp16"), "precision.compute", "bf16", {"run.sh": "torchrun train.py --output_dir out --bf16\n"}),
    "flag that is missing": Case(
        hf(""), "precision.compute", "bf16", {"run.sh": "torchrun train.py --output_dir out --bf16 True\n"}),
    "flag, negated": Case(
        hf(" --no_dataloader_pin_memory"), "dataloader.pin_memory", True, {"run.sh": "torchrun train.py --output_dir out\n"}),
    "flag that another value needs": Case(
        hf(""), "dataloader.persistent_workers", True,
        {"run.sh": "torchrun train.py --output_dir out --dataloader_num_workers 4 --dataloader_persistent_workers True\n"}),
    "flag, what becomes void goes": Case(
        hf(" --dataloader_num_workers 4 --dataloader_prefetch_factor 2"), "dataloader.workers", 0,
        {"run.sh": "torchrun train.py --output_dir out --dataloader_num_workers 0\n"}),
    "main framework before DeepSpeed's file": Case(
        hf(" --deepspeed ds.json", **{"ds.json": '{"zero_optimization": {"stage": 2}}\n'}), "precision.compute", "bf16",
        {"run.sh": "torchrun train.py --output_dir out --deepspeed ds.json --bf16 True\n"}),
    "json key": Case(
        hf(" --deepspeed ds.json", **{"ds.json": '{"zero_optimization": {"stage": 3}}\n'}), "sharding.stage", 2,
        {"ds.json": '{"zero_optimization": {"stage": 2}}\n'}),
    "json key that is missing": Case(
        hf(" --deepspeed ds.json", **{"ds.json": '{\n  "zero_optimization": {\n    "stage": 2\n  }\n}\n'}), "sharding.overlap_comm", True,
        {"ds.json": '{\n  "zero_optimization": {\n    "stage": 2,\n    "overlap_comm": true\n  }\n}\n'}),
    "json key that a script writes": Case(
        hf("") | {"run.sh": HEREDOC.format(3, "")}, "sharding.stage", 2, {"run.sh": HEREDOC.format(2, "")}),
    "missing json key that a script writes": Case(
        hf("") | {"run.sh": HEREDOC.format(2, "")}, "sharding.overlap_comm", True,
        {"run.sh": HEREDOC.format(2, ', "overlap_comm": true')}),
    "variable": Case(
        hf("") | {"run.sh": "export NCCL_DEBUG=INFO\ntorchrun train.py --output_dir out\n"}, "debug.nccl", "WARN",
        {"run.sh": "export NCCL_DEBUG=WARN\ntorchrun train.py --output_dir out\n"}),
    "variable that is missing": Case(
        hf(""), "memory.allocator", "expandable_segments:True",
        {"run.sh": "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\ntorchrun train.py --output_dir out\n"}),
    "switch in the environment": Case(
        hf("") | {"run.sh": "NCCL_P2P_DISABLE=1 torchrun train.py --output_dir out\n"}, "nccl.p2p_disable", False,
        {"run.sh": "NCCL_P2P_DISABLE=0 torchrun train.py --output_dir out\n"}),
    "keyword": Case(
        code("loader = DataLoader(ds, num_workers=0)\n"), "dataloader.workers", 4,
        code("loader = DataLoader(ds, num_workers=4)\n")),
    "keyword that is missing": Case(
        code("loader = DataLoader(ds)\n"), "dataloader.pin_memory", True,
        code("loader = DataLoader(ds, pin_memory=True)\n")),
    "keyword by position": Case(
        code("loader = DataLoader(ds, 8, True, None, None, 0)\n"), "dataloader.workers", 4,
        code("loader = DataLoader(ds, 8, True, None, None, 4)\n")),
    "keyword that another value needs": Case(
        code("loader = DataLoader(ds, num_workers=0)\n"), "dataloader.persistent_workers", True,
        code("loader = DataLoader(ds, num_workers=4, persistent_workers=True)\n")),
    "keyword from a name used once": Case(
        code("W = 0\nloader = DataLoader(ds, num_workers=W)\n"), "dataloader.workers", 4,
        code("W = 4\nloader = DataLoader(ds, num_workers=W)\n")),
    "keyword from a name used twice": Case(
        code("W = 0\nprint(W)\nloader = DataLoader(ds, num_workers=W)\n"), "dataloader.workers", 4,
        code("W = 0\nprint(W)\nloader = DataLoader(ds, num_workers=4)\n")),
    "keyword from a dict": Case(
        code("kw = {'num_workers': 0}\nloader = DataLoader(ds, **kw)\n"), "dataloader.workers", 4,
        code("kw = {'num_workers': 4}\nloader = DataLoader(ds, **kw)\n")),
    "option's default": Case(
        code("import argparse\np = argparse.ArgumentParser()\np.add_argument('--workers', type=int, default=0)\nargs = p.parse_args()\nloader = DataLoader(ds, num_workers=args.workers)\n"),
        "dataloader.workers", 4,
        code("import argparse\np = argparse.ArgumentParser()\np.add_argument('--workers', type=int, default=4)\nargs = p.parse_args()\nloader = DataLoader(ds, num_workers=args.workers)\n")),
    "program with its own options": Case(
        {"run.sh": "python train.py --workers 2\n", "train.py": OWN_OPTIONS.replace(", **kw", "")}, "precision.compute", "bf16",
        {"train.py": OWN_OPTIONS.replace(", **kw", ", bf16=True")}),
    "switch of the program's own, on": Case(
        {"run.sh": "python train.py --x 1\n", **SWITCH}, "dataloader.pin_memory", True,
        {"run.sh": "python train.py --x 1 --pin\n"}),
    "switch of the program's own, off": Case(
        {"run.sh": "python train.py --pin --x 1\n", **SWITCH}, "dataloader.pin_memory", False,
        {"run.sh": "python train.py --x 1\n"}),
    "field's default": Case(
        {"train.py": "from dataclasses import dataclass\n" + PARSER.replace("\nargs", "\n@dataclass\nclass Mine(TrainingArguments):\n    optim: str = 'adamw_torch'\nargs").replace("(TrainingArguments).", "(Mine).")},
        "optimizer.name", "adamw_torch_fused",
        {"train.py": "from dataclasses import dataclass\n" + PARSER.replace("\nargs", "\n@dataclass\nclass Mine(TrainingArguments):\n    optim: str = 'adamw_torch_fused'\nargs").replace("(TrainingArguments).", "(Mine).")}),
    "configuration call": Case(
        {"train.py": HF + "Trainer(args=TrainingArguments('out', fp16=True)).train()\n"}, "precision.compute", "bf16",
        {"train.py": HF + "Trainer(args=TrainingArguments('out', bf16=True)).train()\n"}),
    "configuration call that leaves it out": Case(
        {"train.py": HF + "Trainer(args=TrainingArguments('out')).train()\n"}, "dataloader.workers", 4,
        {"train.py": HF + "Trainer(args=TrainingArguments('out', dataloader_num_workers=4)).train()\n"}),
    "dict inside a configuration call": Case(
        {"train.py": HF + "Trainer(args=TrainingArguments('out', gradient_checkpointing_kwargs={'use_reentrant': True})).train()\n"},
        "activation_checkpointing.reentrant", False,
        {"train.py": HF + "Trainer(args=TrainingArguments('out', gradient_checkpointing_kwargs={'use_reentrant': False})).train()\n"}),
    "name of a number format": Case(
        code("with torch.autocast('cuda', dtype=torch.float16):\n    pass\n"), "precision.compute", "bf16",
        code("with torch.autocast('cuda', dtype=torch.bfloat16):\n    pass\n")),
    "statement": Case(
        code("torch.backends.cudnn.benchmark = False\n"), "cudnn.benchmark", True,
        code("torch.backends.cudnn.benchmark = True\n")),
    "variable set in code": Case(
        code("import os\nos.environ['NCCL_DEBUG'] = 'INFO'\n"), "debug.nccl", "WARN",
        code("import os\nos.environ['NCCL_DEBUG'] = 'WARN'\n")),
}  # fmt: skip


def change(files: Mapping[str, str], knob: str, value: Scalar) -> tuple[ProjectFacts, Outcome]:
    facts = gather(DictTree(files))
    (job,) = facts.jobs
    return facts, set_knob(job, knob, value, facts)


def applied(files: Mapping[str, str], outcome: Outcome) -> dict[str, str]:
    assert isinstance(outcome, Changed), outcome
    texts, dropped = apply_patches(DictTree(files), [outcome.patch])
    assert not dropped
    return texts


@pytest.mark.parametrize("case", CHANGED.values(), ids=CHANGED)
def test_knob_is_set(case: Case) -> None:
    _, outcome = change(case.files, case.knob, case.value)
    texts = applied(case.files, outcome)
    assert texts == {p: t for p, t in case.changed.items() if t != case.files[p]}
    again, second = change({**case.files, **texts}, case.knob, case.value)
    assert again.jobs[0].value(case.knob) == case.value
    assert isinstance(second, Unchanged)


REFUSED = {
    "program with its own options": ({"run.sh": "python train.py --workers 2\n", "train.py": OWN_OPTIONS}, "precision.compute", "bf16"),
    "no such knob here": (lf(""), "kernels.unknown", True),
    "value from outside": (hf(" --logging_steps $1"), "log.steps", 10),
    "arguments that cannot be seen": (code("loader = DataLoader(ds, **kw)\n"), "dataloader.workers", 4),
    "strategy that makes it void": (hf(" --save_strategy epoch --save_steps 1"), "save.steps", 500),
    "a word that no name here can say": (hf(" --optim adamw_torch"), "precision.compute", "fp8"),
    "a call that is the setting": (code("model = torch.compile(model)\nloader = []\n"), "compile.enabled", False),
}  # fmt: skip


@pytest.mark.parametrize(("files", "knob", "value"), REFUSED.values(), ids=REFUSED)
def test_refused(files: Mapping[str, str], knob: str, value: Scalar) -> None:
    outcome = change(files, knob, value)[1]
    assert isinstance(outcome, Refused), outcome


UNSET = {
    "yaml": (lf("bf16: true\n"), "precision.compute", lf("")),
    "flag": (hf(" --tf32 True"), "precision.tf32", {"run.sh": "torchrun train.py --output_dir out\n"}),
    "bare flag": (hf(" --tf32 --bf16"), "precision.tf32", {"run.sh": "torchrun train.py --output_dir out --bf16\n"}),
    "variable": (
        hf("") | {"run.sh": "export NCCL_P2P_DISABLE=1\ntorchrun train.py --output_dir out\n"}, "nccl.p2p_disable",
        {"run.sh": "torchrun train.py --output_dir out\n"}),
    "keyword": (
        code("loader = DataLoader(ds, pin_memory=False)\n"), "dataloader.pin_memory", code("loader = DataLoader(ds)\n")),
    "statement": (
        code("torch.backends.cudnn.deterministic = True\nloader = []\n"), "determinism.cudnn", code("loader = []\n")),
    "variable set in code": (
        code("import os\nos.environ['NCCL_P2P_DISABLE'] = '1'\n"), "nccl.p2p_disable", code("import os\n")),
}  # fmt: skip


@pytest.mark.parametrize(("files", "knob", "changed"), UNSET.values(), ids=UNSET)
def test_knob_is_unset(files: Mapping[str, str], knob: str, changed: Mapping[str, str]) -> None:
    facts = gather(DictTree(files))
    texts = applied(files, unset_knob(facts.jobs[0], knob, facts))
    assert texts == changed
    again = gather(DictTree({**files, **texts}))
    assert isinstance(unset_knob(again.jobs[0], knob, again), Unchanged)


@pytest.mark.parametrize(
    ("pin", "flag"),
    [
        ("transformers==4.40.0", "--evaluation_strategy"),
        ("transformers==4.57.6", "--eval_strategy"),
        ("transformers", "--eval_strategy"),
        ("transformers>=4.30", "--eval_strategy"),
    ],
)
def test_name_follows_the_version(pin: str, flag: str) -> None:
    files = hf("", **{"requirements.txt": f"{pin}\n"})
    texts = applied(files, change(files, "eval.strategy", "steps")[1])
    assert texts == {"run.sh": f"torchrun train.py --output_dir out {flag} steps\n"}


def test_one_loader_of_two_is_changed() -> None:
    text = "a = DataLoader(ds)\nloader = DataLoader(ds)\n"
    files = code(text)
    facts = gather(DictTree(files))
    (job,) = facts.jobs
    _, second = job.settings["dataloader.persistent_workers"]
    outcome = set_knob(job, "dataloader.persistent_workers", True, facts, second)
    wanted = "a = DataLoader(ds)\nloader = DataLoader(ds, num_workers=4, persistent_workers=True)\n"
    assert applied(files, outcome) == code(wanted)
