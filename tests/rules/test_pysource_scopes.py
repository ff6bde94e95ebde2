# ruff: noqa: E501 (a case is one line)
"""Which code runs at every step. In each case `MARK()` is the place that is asked about."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pitstop.rules.pysource import PyModule, read_module
from pitstop.rules.tree import SourceFile


def module(text: str) -> PyModule:
    return read_module(SourceFile("train.py", textwrap.dedent(text)))


def marks(found: PyModule) -> list[ast.Call]:
    return [c.node for c in found.calls if c.name == "MARK"]


def loops(text: str) -> list[tuple[int, str]]:
    return [(loop.location.line, loop.kind) for loop in module(text).train_loops]


# --- loops -----------------------------------------------------------------------------------

LOOPS: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "one loop": ("for b in d:\n  loss.backward()\n", [(1, "step")]),
    "epochs around steps": ("for e in r:\n  for b in d:\n    loss.backward()\n  save()\n", [(1, "epoch"), (2, "step")]),
    "while": ("while True:\n  loss.backward()\n", [(1, "step")]),
    "micro steps and steps": (
        "while True:\n  for m in r:\n    scaler.scale(loss).backward()\n  scaler.step(optimizer)\n",
        [(1, "step"), (2, "step")],
    ),
    "accelerate": ("for b in d:\n  accelerator.backward(loss)\n", [(1, "step")]),
    "engine of DeepSpeed": (
        "import deepspeed\nm, o, _, _ = deepspeed.initialize()\nfor b in d:\n  m.step()\n", [(3, "step")],
    ),
    "optimizer by its maker": (
        "import torch\nfoo = torch.optim.SGD(p)\nfor b in d:\n  foo.step()\n", [(3, "step")],
    ),
    "steps in a function, epochs outside": (
        "def train():\n  for b in d:\n    loss.backward()\nfor e in r:\n  train()\n", [(2, "step"), (4, "epoch")],
    ),
    "a step function called in a loop": (
        "def go(b):\n  loss.backward()\nfor e in r:\n  for b in d:\n    go(b)\n", [(3, "epoch"), (4, "step")],
    ),
    "a step method called in a loop": (
        "class T:\n  def go(self):\n    self.optimizer.step()\n  def run(self):\n    for b in d:\n      self.go()\n",
        [(5, "step")],
    ),
    "a schedule alone is no training": ("for b in d:\n  lr_scheduler.step()\n", []),
    "a schedule of an optimizer is no optimizer": ("for b in d:\n  optim_scheduler.step()\n", []),
    "an environment is no optimizer": ("for b in d:\n  env.step(a)\n", []),
    "autograd's own backward": ("class F:\n  def backward(ctx, g):\n    for b in d:\n      x.backward()\n", []),
    "a function defined in a loop is not in it": ("for b in d:\n  def f():\n    loss.backward()\n", []),
    "a comprehension is no loop": ("[x.backward() for x in y]\n", []),
    "the else of a loop is not in it": ("for b in d:\n  pass\nelse:\n  loss.backward()\n", []),
    "two functions of one name are not followed": (
        "class A:\n  def f(self): loss.backward()\nclass B:\n  def f(self): ...\n  def g(self):\n    for b in d: self.f()\n",
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOOPS)
def test_loops(case: str) -> None:
    text, expected = LOOPS[case]
    assert loops(text) == expected


# --- step scope ------------------------------------------------------------------------------

STEP = {
    "in the loop": "for b in d:\n  MARK()\n  loss.backward()\n",
    "in a with": "for b in d:\n  with a:\n    loss.backward()\n    MARK()\n",
    "in an inner loop": "for b in d:\n  loss.backward()\n  for p in q:\n    MARK()\n",
    "in the test of a while": "while MARK():\n  loss.backward()\n",
    "in a step function": "def go():\n  loss.backward()\n  MARK()\nfor b in d:\n  go()\n",
    "in training_step": "class M:\n  def training_step(self, b):\n    MARK()\n",
    "in compute_loss": "class T:\n  def compute_loss(self, b):\n    MARK()\n",
    "in a callback": "class C:\n  def on_step_end(self):\n    MARK()\n",
    "in a lambda": "for b in d:\n  loss.backward()\n  f(lambda: MARK())\n",
    "behind the micro steps": "while t:\n  for m in r:\n    loss.backward()\n  optimizer.step()\n  MARK()\n",
}
NOT_STEP = {
    "before the loop": "MARK()\nfor b in d:\n  loss.backward()\n",
    "in the iterable": "for b in MARK():\n  loss.backward()\n",
    "once an epoch": "for e in r:\n  MARK()\n  for b in d:\n    loss.backward()\n",
    "once an epoch, around a function": "def train():\n  MARK()\n  for b in d:\n    loss.backward()\nfor e in r:\n  train()\n",
    "in another loop": "for b in d:\n  MARK()\nfor b in d:\n  loss.backward()\n",
    "in a function defined in the loop": "for b in d:\n  loss.backward()\n  def f():\n    MARK()\n",
    "in the else of the loop": "for b in d:\n  loss.backward()\nelse:\n  MARK()\n",
    "in a function that is called": "def log():\n  MARK()\nfor b in d:\n  loss.backward()\n  log()\n",
    "in forward": "import torch\nclass M(torch.nn.Module):\n  def forward(self, x):\n    MARK()\n",
    "in validation_step": "class M:\n  def validation_step(self, b):\n    MARK()\n",
}


@pytest.mark.parametrize("case", STEP)
def test_in_step_scope(case: str) -> None:
    found = module(STEP[case])
    assert [found.in_step_scope(m) for m in marks(found)] == [True]


@pytest.mark.parametrize("case", NOT_STEP)
def test_not_in_step_scope(case: str) -> None:
    found = module(NOT_STEP[case])
    assert [found.in_step_scope(m) for m in marks(found)] == [False]


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("import torch\nclass M(torch.nn.Module):\n  def forward(self, x):\n    MARK()\n", True),
        (
            "from torch import nn\nclass A(nn.Module): ...\nclass B(A):\n  def forward(self, x):\n    MARK()\n",
            True,
        ),
        (
            "from transformers import PreTrainedModel\nclass A(PreTrainedModel):\n  def forward(self):\n    MARK()\n",
            True,
        ),
        ("class A:\n  def forward(self, x):\n    MARK()\n", False),
        ("import torch\nclass M(torch.nn.Module):\n  def extra(self, x):\n    MARK()\n", False),
        ("class A(B): ...\nclass B(A):\n  def forward(self):\n    MARK()\n", False),
    ],
)
def test_forward_counts_when_asked_for(text: str, inside: bool) -> None:
    found = module(text)
    (mark,) = marks(found)
    assert found.in_step_scope(mark, forward=True) is inside
    assert not found.in_step_scope(mark)


# --- guards ----------------------------------------------------------------------------------

GUARDED = {
    "every n steps": "if step % 10 == 0:\n  MARK()",
    "every n steps, by the test alone": "if not step % 10:\n  MARK()",
    "log flag": "if args.log_every:\n  MARK()",
    "should_save": "if self.should_save():\n  MARK()",
    "debug": "if DEBUG:\n  MARK()",
    "__debug__": "if __debug__:\n  MARK()",
    "first step": "if step == 0:\n  MARK()",
    "late steps": "if global_step > 1000:\n  MARK()",
    "enumerated": "if i == 3:\n  MARK()",
    "in a loop under the guard": "if step % 10 == 0:\n  for p in q:\n    MARK()",
    "with another condition": "if rank == 0 and step % 10 == 0:\n  MARK()",
    "in the else": "if step % 10:\n  pass\nelse:\n  MARK()",
    "elif": "if a:\n  pass\nelif step % 10 == 0:\n  MARK()",
    "on error": "try:\n  x()\nexcept E:\n  MARK()",
    "after continue": "if step % 10:\n  continue\nMARK()",
    "conditional expression": "x = MARK() if step % 10 == 0 else None",
    "and": "step % 10 == 0 and MARK()",
}
NOT_GUARDED = {
    "plain": "MARK()",
    "rank zero": "if rank == 0:\n  MARK()",
    "main process": "if accelerator.is_main_process:\n  MARK()",
    "another condition": "if x is not None:\n  MARK()",
    "in the test": "if MARK() % 2:\n  pass",
    "before continue": "MARK()\nif step % 10:\n  continue",
    "after a guarded statement": "if step % 10 == 0:\n  pass\nMARK()",
    "try": "try:\n  MARK()\nexcept E:\n  pass",
    "finally": "try:\n  pass\nfinally:\n  MARK()",
    "first of an and": "MARK() and step % 10",
}


def guarded(lines: str, before: str = "") -> list[bool]:
    loop = "for step, b in enumerate(d):\n" + textwrap.indent(lines, "  ") + "\n  loss.backward()\n"
    found = module(before + textwrap.indent(loop, "  " if before else ""))
    return [found.guarded(m) for m in marks(found)]


@pytest.mark.parametrize("case", GUARDED)
def test_guarded(case: str) -> None:
    assert guarded(GUARDED[case]) == [True]


@pytest.mark.parametrize("case", NOT_GUARDED)
def test_not_guarded(case: str) -> None:
    assert guarded(NOT_GUARDED[case]) == [False]


def test_a_guard_around_the_whole_loop_is_none() -> None:
    assert guarded("MARK()", before="if args.log_dir:\n") == [False]


# --- evaluation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("def evaluate():\n  MARK()\n", True),
        ("def run_validation(m):\n  for b in d:\n    MARK()\n", True),
        ("import torch\ndef go():\n  with torch.no_grad():\n    MARK()\n", True),
        ("import torch\nwith torch.inference_mode(): MARK()\n", True),
        ("import torch\n@torch.no_grad()\ndef go():\n  MARK()\n", True),
        ("from torch import no_grad\n@no_grad()\ndef go():\n  MARK()\n", True),
        ("def train():\n  MARK()\n", False),
        ("def train_and_eval():\n  loss.backward()\n  MARK()\n", False),
        ("with torch.no_grad():\n  loss.backward()\n  MARK()\n", False),
        ("with torch.autocast('cuda'):\n  MARK()\n", False),
        ("MARK()\n", False),
    ],
)
def test_eval_scope(text: str, inside: bool) -> None:
    found = module(text)
    assert [found.in_eval_scope(m) for m in marks(found)] == [inside]


# --- what trains, what uses a GPU ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "trains"),
    [
        ("loss.backward()\n", True),
        ("optimizer.step()\n", True),
        ("from transformers import Trainer\nTrainer(m).train()\n", True),
        ("from trl import SFTTrainer as T\nT(m)\n", True),
        ("import pytorch_lightning as pl\npl.Trainer(gpus=1)\n", True),
        ("from .trainer import MyTrainer\nMyTrainer(m).train()\n", True),
        ("from .trainer import MyTrainer\nMyTrainer(m).predict()\n", False),
        (
            "import lightning as L\nclass M(L.LightningModule):\n  def training_step(self, b): ...\n",
            True,
        ),
        (
            "import lightning as L\nclass M(L.LightningModule):\n  def forward(self, b): ...\n",
            False,
        ),
        ("from transformers import Trainer\nclass T(Trainer): ...\n", False),
        ("import torch\nmodel(x)\n", False),
        ("model.train()\n", False),
        ("", False),
    ],
)
def test_trains(text: str, trains: bool) -> None:
    assert module(text).trains is trains


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("x.cuda()\n", True),
        ("import torch\ntorch.cuda.is_available()\n", True),
        ("x.to('cuda:0')\n", True),
        ("import torch\ntorch.device('cuda')\n", True),
        ("import deepspeed\n", True),
        ("from accelerate import Accelerator\n", True),
        ("import lightning.pytorch as pl\n", True),
        ("from transformers import Trainer\n", True),
        ("from transformers import AutoTokenizer\n", False),
        ("import torch\nx.to('cpu')\n", False),
        ("'''A long text that speaks of cuda.'''\n", False),
        ("barracuda()\n", False),
    ],
)
def test_uses_gpu(text: str, uses: bool) -> None:
    assert module(text).uses_gpu is uses


def test_a_loop_says_where_it_stands() -> None:
    (loop,) = module("x = 1\nfor b in d:\n  loss.backward()\n  y()\nz()\n").train_loops
    assert (loop.location.line, loop.location.end_line) == (2, 4)
    assert isinstance(loop.node, ast.For)
