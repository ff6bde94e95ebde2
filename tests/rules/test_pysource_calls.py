# ruff: noqa: E501 (a case is one line)
"""Calls and their arguments: names through imports, values followed as far as they are certain."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitstop.rules.finding import Unknown
from pitstop.rules.pysource import Argument, Call, PyModule, read_module
from pitstop.rules.tree import SourceFile

quick = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def module(text: str, path: str = "pkg/sub/train.py") -> PyModule:
    return read_module(SourceFile(path, text))


def call(text: str, name: str = "f") -> Call:
    return next(c for c in reversed(module(text).calls) if c.name == name)


def argument(text: str, keyword: str = "x") -> Argument:
    found = call(text).argument(keyword)
    assert found is not None
    span = found.value_at.span
    assert text[span.start : span.end] == found.raw
    used = found.used_at.span
    assert text[used.start : used.end]
    return found


# --- names -----------------------------------------------------------------------------------

NAMES = {
    "alias": ("import torch.utils.data as D\nD.DataLoader()\n", "torch.utils.data.DataLoader"),
    "dotted import": ("import torch.utils.data\ntorch.utils.data.DataLoader()\n",
                      "torch.utils.data.DataLoader"),
    "from import": ("from torch.utils.data import DataLoader as DL\nDL()\n",
                    "torch.utils.data.DataLoader"),
    "import inside a function": ("def g():\n  from torch import optim\n  optim.AdamW()\n",
                                 "torch.optim.AdamW"),
    "inner module": ("from torch.optim.adamw import AdamW\nAdamW()\n", "torch.optim.AdamW"),
    "inner module of data": ("import torch\ntorch.utils.data.dataloader.DataLoader()\n",
                             "torch.utils.data.DataLoader"),
    "inner module of parallel": ("from torch.nn.parallel.distributed import *\n"
                                 "import torch.nn.parallel.distributed as d\n"
                                 "d.DistributedDataParallel()\n",
                                 "torch.nn.parallel.DistributedDataParallel"),
    "two homes of DataParallel": ("from torch.nn.parallel import DataParallel\nDataParallel()\n",
                                  "torch.nn.DataParallel"),
    "old name of Lightning": ("import pytorch_lightning as pl\npl.Trainer()\n",
                              "lightning.pytorch.Trainer"),
    "relative": ("from .data import make\nmake()\n", "pkg.sub.data.make"),
    "relative from the package": ("from . import data\ndata.make()\n", "pkg.sub.data.make"),
    "relative above": ("from ..x.y import make\nmake()\n", "pkg.x.y.make"),
    "relative out of the tree": ("from ....x import make\nmake()\n", "....x.make"),
    "alias by assignment": ("import torch\nopt = torch.optim.AdamW\nopt()\n", "torch.optim.AdamW"),
    "module by assignment": ("import torch\nnn = torch.nn\nnn.Linear()\n", "torch.nn.Linear"),
    "method of something": ("import torch\nmodel.loss.backward()\n", ".backward"),
    "method of an element": ("losses[0].item()\n", ".item"),
    "method of a parameter": ("def g(torch):\n  torch.compile()\n", ".compile"),
    "a name that two functions import": ("def g():\n  import x as t\ndef h():\n  import y as t\n  t.c()\n",
                                         "y.c"),
    "own function": ("def train(): ...\ntrain()\n", "train"),
    "method of an own class": ("class A: ...\nA.make()\n", "A.make"),
    "builtin": ("print()\n", "print"),
    "unknown name": ("whatever()\n", "whatever"),
    "fall-back by None": ("try:\n  import apex\nexcept ImportError:\n  apex = None\napex.f()\n",
                          "apex.f"),
    "fall-back by another import": ("try:\n  from torch.amp import autocast\nexcept ImportError:\n"
                                    "  from torch.cuda.amp import autocast\nautocast()\n",
                                    "torch.amp.autocast"),
    "fall-back by a class": ("try:\n  from x import A\nexcept ImportError:\n  class A: ...\nA()\n",
                             "x.A"),
    "shadowed by an own class": ("from torch.utils.data import DataLoader\n"
                                 "class DataLoader: ...\nDataLoader()\n", "DataLoader"),
    "shadowed by a variable": ("from torch.utils.data import DataLoader\n"
                               "DataLoader = make()\nDataLoader()\n", "DataLoader"),
    "called element": ("table['x']()\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMES)
def test_name(case: str) -> None:
    text, name = NAMES[case]
    assert module(text).calls[-1].name == name


def test_imports_of_a_module() -> None:
    found = module(
        "import os, torch.nn as nn\nfrom . import a\nfrom x import *\nfrom ..y import *\n"
    )
    assert dict(found.imports) == {"os": "os", "nn": "torch.nn", "a": "pkg.sub.a"}
    assert found.star_imports == ("x", "pkg.y")


# --- values ----------------------------------------------------------------------------------

VALUES: dict[str, tuple[str, Any, str, str]] = {  # text, value, raw, origin
    "integer": ("f(x=4)\n", 4, "4", "literal"),
    "negative": ("f(x=-1)\n", -1, "-1", "literal"),
    "float": ("f(x=1e-4)\n", 1e-4, "1e-4", "literal"),
    "text": ("f(x='a' 'b')\n", "ab", "'a' 'b'", "literal"),
    "boolean": ("f(x=not False)\n", True, "not False", "literal"),
    "none": ("f(x=None)\n", None, "None", "literal"),
    "tuple": ("f(x=(0.9, 0.95))\n", (0.9, 0.95), "(0.9, 0.95)", "literal"),
    "list": ("f(x=['a', 1])\n", ("a", 1), "['a', 1]", "literal"),
    "empty list": ("f(x=[])\n", (), "[]", "literal"),
    "arithmetic": ("f(x=2 * 1024 ** 2)\n", 2097152, "2 * 1024 ** 2", "literal"),
    "joined text": ("f(x='a' + 'b')\n", "ab", "'a' + 'b'", "literal"),
    "cast": ("f(x=int(4.0))\n", 4, "4.0", "literal"),
    "walrus": ("f(x=(n := 4))\n", 4, "4", "literal"),
    "dtype": ("import torch\nf(x=torch.bfloat16)\n", "torch.bfloat16", "torch.bfloat16", "literal"),
    "dtype by name": ("from torch import float16 as h\ng(h)\nimport torch as t\nf(x=t.half)\n",
                      "torch.half", "t.half", "literal"),
    "member of an enumeration": ("from torch.distributed.fsdp import ShardingStrategy as S\n"
                                 "f(x=S.NO_SHARD)\n",
                                 "torch.distributed.fsdp.ShardingStrategy.NO_SHARD", "S.NO_SHARD",
                                 "literal"),
    "name of the module": ("n = 4\nf(x=n)\n", 4, "4", "variable"),
    "name of the module in a function": ("n = 4\ndef g():\n  f(x=n)\n", 4, "4", "variable"),
    "name of the function": ("def g():\n  n = 4\n  f(x=n)\n", 4, "4", "variable"),
    "name of the function around": ("def g():\n  n = 4\n  def h():\n    f(x=n)\n", 4, "4", "variable"),
    "local name over a global one": ("n = 1\ndef g():\n  n = 4\n  f(x=n)\n", 4, "4", "variable"),
    "name through names": ("a = 4\nb = a\nf(x=b)\n", 4, "4", "variable"),
    "annotated name": ("n: int = 4\nf(x=n)\n", 4, "4", "variable"),
    "unpacked names": ("a, b = 1, 4\nf(x=b)\n", 4, "4", "variable"),
    "chained assignment": ("a = b = 4\nf(x=a)\n", 4, "4", "variable"),
    "dtype through a name": ("import torch\nd = torch.bfloat16\nf(x=d)\n", "torch.bfloat16",
                             "torch.bfloat16", "variable"),
    "arithmetic on names": ("a = 2\nf(x=a * 4)\n", 8, "a * 4", "computed"),
    "formatted text": ("n = 4\nf(x=f'run-{n}')\n", "run-4", "f'run-{n}'", "computed"),
    "condition that is certain": ("f(x=4 if True else 8)\n", 4, "4", "literal"),
    "both branches alike": ("f(x=4 if q else 4)\n", 4, "4", "literal"),
    "dictionary": ("kw = {'x': 4}\nf(**kw)\n", 4, "4", "dict"),
    "dictionary of names": ("n = 4\nkw = dict(x=n)\nf(**kw)\n", 4, "4", "dict"),
    "dictionary in place": ("f(**{'x': 4})\n", 4, "4", "dict"),
    "dictionary in a dictionary": ("a = {'x': 4}\nb = {**a, 'y': 1}\nf(**b)\n", 4, "4", "dict"),
    "dictionary united": ("a = {'x': 1}\nf(**(a | {'x': 4}))\n", 4, "4", "dict"),
    "dictionary copied": ("a = {'x': 4}\nb = a.copy()\nf(**b)\n", 4, "4", "dict"),
    "dictionary completed": ("kw = {}\nkw['x'] = 4\nf(**kw)\n", 4, "4", "dict"),
    "dictionary updated": ("kw = dict(x=1)\nkw.update(x=4)\nf(**kw)\n", 4, "4", "dict"),
    "global dictionary completed": ("kw = {}\nkw['x'] = 4\ndef g():\n  f(**kw)\n", 4, "4", "dict"),
    "dictionary printed and read": ("kw = {'x': 4}\nprint(kw, len(kw), kw['x'], f'{kw}')\n"
                                    "for k, v in kw.items(): print(k)\nf(**kw)\ng(**kw)\n",
                                    4, "4", "dict"),
    "default set where there is none": ("kw = {}\nkw.setdefault('x', 4)\nf(**kw)\n", 4, "4", "dict"),
    "default set where there is one": ("kw = {'x': 4}\nkw.setdefault('x', 1)\nf(**kw)\n", 4, "4",
                                       "dict"),
    "element": ("C = {'n': 4}\nf(x=C['n'])\n", 4, "4", "dict"),
    "attribute of a class": ("class C:\n  n = 4\nf(x=C.n)\n", 4, "4", "field"),
    "attribute of an object": ("class C:\n  n = 4\nc = C()\nf(x=c.n)\n", 4, "4", "field"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_value(case: str) -> None:
    text, value, raw, origin = VALUES[case]
    found = argument(text)
    assert (found.value, type(found.value)) == (value, type(value))
    assert (found.raw, found.origin) == (raw, origin)
    assert not call(text).open_ended


UNKNOWN = {
    "environment": "import os\nf(x=os.environ.get('N', '4'))\n",
    "cast of the environment": "import os\nf(x=int(os.getenv('N', 4)))\n",
    "call": "f(x=g())\n",
    "count of processors": "import os\nf(x=os.cpu_count())\n",
    "attribute of a configuration": "f(x=cfg.n)\n",
    "element of a configuration": "f(x=cfg['n'])\n",
    "attribute of an own module": "import config\nf(x=config.WORKERS)\n",
    "member of an own enumeration": "from mine import Mode\nf(x=Mode.FAST)\n",
    "condition": "f(x=4 if q else 8)\n",
    "or": "f(x=n or 4)\n",
    "comparison": "f(x=n > 4)\n",
    "parameter": "def g(n=4):\n  f(x=n)\n",
    "assigned twice": "n = 4\nn = 8\nf(x=n)\n",
    "assigned in two branches": "if q:\n  n = 4\nelse:\n  n = 8\nf(x=n)\n",
    "changed in place": "n = 4\nn += 1\nf(x=n)\n",
    "loop variable": "for n in (4,):\n  f(x=n)\n",
    "comprehension variable": "[f(x=n) for n in (4,)]\n",
    "deleted": "n = 4\ndel n\nf(x=n)\n",
    "changed by a function": "n = 4\ndef g():\n  global n\n  n = 8\nf(x=n)\n",
    "changed by an inner function": "def g():\n  n = 4\n  def h():\n    nonlocal n\n    n = 8\n  f(x=n)\n",
    "changed by exec": "n = 4\nexec(open('c.py').read())\nf(x=n)\n",
    "changed by globals": "n = 4\nglobals()['n'] = 8\nf(x=n)\n",
    "imported": "from c import n\nf(x=n)\n",
    "star import": "from c import *\nn = 4\nf(x=n)\n",
    "caught": "try: ...\nexcept E as n:\n  f(x=n)\n",
    "opened": "with o() as n:\n  f(x=n)\n",
    "matched": "match q:\n  case [n]:\n    f(x=n)\n",
    "starred target": "*n, m = 4, 5\nf(x=n)\n",
    "undefined": "f(x=n)\n",
    "class scope is not seen in methods": "class A:\n  n = 4\n  def g(self):\n    f(x=n)\n",
    "nested sequences": "f(x=[[1]])\n",
    "bytes": "f(x=b'a')\n",
    "complex": "f(x=1j)\n",
    "division by zero": "f(x=1 / 0)\n",
    "unknown part": "f(x=2 * n)\n",
    "formatted with a format": "n = 4\nf(x=f'{n:03}')\n",
    "lambda": "f(x=lambda: 4)\n",
    "member of an enumeration here": "import enum\nclass M(enum.Enum):\n  n = 4\nf(x=M.n)\n",
    "attribute that the object sets": "class C:\n  n = 4\n  def s(self): self.n = 8\nc = C()\nf(x=c.n)\n",
    "attribute that is changed": "class C:\n  n = 4\nC.n = 8\nf(x=C.n)\n",
    "dictionary changed under a condition": "kw = {'x': 4}\nif q:\n  kw['x'] = 8\nf(**kw)\n",
    "dictionary completed under a condition": "kw = {}\nif q:\n  kw.update(x=4)\nf(**kw)\n",
    "dictionary changed in a loop": "kw = {'x': 4}\nfor i in r:\n  f(**kw)\n  kw['x'] = i\n",
    "dictionary changed after the use": "kw = {'x': 4}\nf(**kw)\nkw['x'] = 8\n",
    "dictionary handed on": "kw = {'x': 4}\nchange(kw)\nf(**kw)\n",
    "dictionary under another name": "kw = {'x': 4}\nother = kw\nother['x'] = 8\nf(**kw)\n",
    "dictionary with a computed key": "kw = {'x': 4}\nkw[k] = 8\nf(**kw)\n",
    "dictionary with another spread in": "kw = {'x': 4, **other}\nf(**kw)\n",
    "dictionary by condition": "kw = {'x': 4} if q else {}\nf(**kw)\n",
    "dictionary changed by a function": "kw = {'x': 4}\ndef g():\n  kw['x'] = 8\nf(**kw)\n",
    "dictionary popped under a condition": "kw = {'x': 4}\nif q:\n  kw.pop('x')\nf(**kw)\n",
    "nested dictionary": "f(x={'a': {'b': 1}})\n",
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown(case: str) -> None:
    found = argument(UNKNOWN[case])
    assert isinstance(found.value, Unknown), found.value
    assert found.value.why


def test_exponents_stay_small() -> None:
    found = argument("f(x=10 ** 10 ** 10)\n")
    assert isinstance(found.value, Unknown)


# --- arguments -------------------------------------------------------------------------------


def test_keyword_and_position() -> None:
    text = "f(ds, 32, True, num_workers = 4)\n"
    found = call(text)
    workers = found.argument("num_workers", 5)
    assert workers is not None and workers.name_at is not None
    assert text[workers.name_at.span.start : workers.name_at.span.end] == "num_workers"
    size = found.argument("batch_size", 1)
    assert size is not None and size.value == 32 and size.name == "" and size.name_at is None
    assert found.argument("pin_memory", 7) is None
    assert found.argument("pin_memory") is None
    assert [a.raw for a in found.arguments] == ["ds", "32", "True", "4"]


def test_a_position_behind_a_star_is_unknown() -> None:
    found = call("f(a, *rest, 4)\n")
    assert found.argument("x", 1) is None and found.argument("x", 2) is None
    first = found.argument("x", 0)
    assert first is not None and first.raw == "a"
    assert found.open_ended


@pytest.mark.parametrize(
    ("text", "open_ended"),
    [
        ("f(a, x=1)\n", False),
        ("f(*a)\n", True),
        ("f(**unknown)\n", True),
        ("def g(**kw):\n  f(**kw)\n", True),
        ("kw = {'y': 1}\nf(**kw)\n", False),
        ("kw = {'y': 1}\nkw.update(other)\nf(**kw)\n", True),
        ("kw = {'y': 1}\nkw[k] = 1\nf(**kw)\n", True),
        ("kw = {'y': 1}\nif q: kw['z'] = 1\nf(**kw)\n", False),
        ("import yaml\ncfg = yaml.safe_load(s)\nf(**cfg)\n", True),
        ("kw = {'y': 1}\nchange(kw)\nf(**kw)\n", True),
        ("f(**vars(args))\n", True),
    ],
)
def test_open_ended(text: str, open_ended: bool) -> None:
    assert call(text).open_ended is open_ended


def test_a_key_that_is_taken_out_is_absent() -> None:
    found = call("kw = {'x': 4, 'y': 1}\nkw.pop('x')\ndel kw['y']\nf(**kw)\n")
    assert found.arguments == () and not found.open_ended


def test_a_dictionary_key_is_the_name() -> None:
    text = "kw = dict(x=4)\nkw['y'] = 5\nf(**kw, z=6)\n"
    found = call(text)
    places = {a.name: a.name_at for a in found.arguments}
    assert [text[p.span.start : p.span.end] for p in places.values() if p] == ["z", "x", "'y'"]
    assert [p.line for p in places.values() if p] == [3, 1, 2]


def test_entries_of_a_dictionary_given_as_a_value() -> None:
    found = argument("n = 4\nf(x={'a': n, 'b': {'c': True}})\n")
    assert isinstance(found.value, Unknown)
    assert [(a.name, a.value) for a in found.nested if a.name == "a"] == [("a", 4)]
    inner = next(a for a in found.nested if a.name == "b")
    assert [(a.name, a.value) for a in inner.nested] == [("c", True)]


# --- argparse --------------------------------------------------------------------------------

ARGPARSE = "import argparse\np = argparse.ArgumentParser()\n{}args = p.parse_args()\nf(x=args.n)\n"
OPTIONS: dict[str, tuple[str, Any, str]] = {
    "default": ("p.add_argument('--n', default=4)\n", 4, "4"),
    "text made a number": ("p.add_argument('--n', type=int, default='4')\n", 4, "'4'"),
    "no default": ("p.add_argument('--n')\n", None, "args.n"),
    "switch": ("p.add_argument('--n', action='store_true')\n", False, "args.n"),
    "switch off": ("p.add_argument('--n', action='store_false')\n", True, "args.n"),
    "switch with a default": ("p.add_argument('--n', action='store_true', default=True)\n", True,
                              "True"),
    "both ways": ("p.add_argument('--n', action=argparse.BooleanOptionalAction, default=True)\n",
                  True, "True"),
    "another destination": ("p.add_argument('--number', '-m', dest='n', default=4)\n", 4, "4"),
    "short name": ("p.add_argument('-n', default=4)\n", 4, "4"),
    "long name first": ("p.add_argument('-k', '--n', default=4)\n", 4, "4"),
    "positional": ("p.add_argument('n', nargs='?', default=4)\n", 4, "4"),
    "group": ("g = p.add_argument_group('a')\ng.add_argument('--n', default=4)\n", 4, "4"),
    "several values": ("p.add_argument('--n', nargs='+', default=[1, 2])\n", (1, 2), "[1, 2]"),
    "through a name": ("N = 4\np.add_argument('--n', default=N)\n", 4, "4"),
}  # fmt: skip
NO_OPTIONS = {
    "required": "p.add_argument('--n', required=True)\n",
    "computed": "p.add_argument('--n', default=g())\n",
    "own type": "p.add_argument('--n', type=str2bool, default='true')\n",
    "type that fails": "p.add_argument('--n', type=int, default='four')\n",
    "two that differ": "p.add_argument('--n', default=4)\np.add_argument('--n', default=8)\n",
    "changed default": "p.add_argument('--n', default=4)\np.set_defaults(n=8)\n",
    "defaults from a file": "p.add_argument('--n', default=4)\np.set_defaults(**cfg)\n",
    "built from a dictionary": "p.add_argument('--n', **kw)\n",
}


@pytest.mark.parametrize("case", OPTIONS)
def test_option(case: str) -> None:
    lines, value, raw = OPTIONS[case]
    found = argument(ARGPARSE.format(lines))
    assert (found.value, found.raw) == (value, raw)
    assert (found.origin, found.key) == ("option", "n")


@pytest.mark.parametrize("case", NO_OPTIONS)
def test_option_that_is_not_certain(case: str) -> None:
    assert isinstance(argument(ARGPARSE.format(NO_OPTIONS[case])).value, Unknown)


@pytest.mark.parametrize(
    "change",
    ["args.n = 8\n", "setattr(args, 'n', 8)\n", "vars(args).update(cfg)\n",
     "args.__dict__.update(cfg)\n", "args.__dict__['n'] = 8\n", "for args.n in r: ...\n",
     "d = vars(args)\nd['n'] = 8\n"],
)  # fmt: skip
def test_option_that_is_changed_after_parsing(change: str) -> None:
    text = ARGPARSE.format("p.add_argument('--n', default=4)\n")
    assert isinstance(argument(text.replace("f(", change + "f(")).value, Unknown)


@pytest.mark.parametrize(
    "use",
    [
        "def main(args):\n  f(x=args.n)\nmain(p.parse_args())\n",
        "def parse():\n  return p.parse_args()\nconfig = parse()\nf(x=config.n)\n",
        "def parse():\n  a = p.parse_args()\n  return a\nconfig = parse()\nf(x=config.n)\n",
        "args, rest = p.parse_known_args()\nf(x=args.n)\n",
        "conf = p.parse_args()\ndef main(conf):\n  f(x=conf.n)\n",
        "class T:\n  def __init__(self, args):\n    self.n = args.n\n    f(x=args.n)\n",
    ],
)
def test_the_namespace_is_followed(use: str) -> None:
    text = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', default=4)\n" + use
    )
    found = argument(text)
    assert (found.value, found.origin, found.raw) == (4, "option", "4")


@pytest.mark.parametrize(
    "use",
    [
        "args, rest = p.parse_known_args()\nf(x=rest.n)\n",
        "args = load()\nf(x=args.n)\n",
        "def main(cfg):\n  f(x=cfg.n)\n",
        "args = p.parse_args()\nargs = merge(args)\nf(x=args.n)\n",
        "def parse(q):\n  if q: return load()\n  return p.parse_args()\nargs = parse(1)\nf(x=args.n)\n",
        "f(x=self.args.n)\n",
    ],
)
def test_other_objects_are_not_the_namespace(use: str) -> None:
    text = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', default=4)\n" + use
    )
    assert isinstance(argument(text).value, Unknown)


def test_options_of_a_module() -> None:
    text = (
        "p.add_argument('--num-workers', '-j', type=int, default=4, help='x')\np.add_argument(n)\n"
    )
    (option,) = module(text).options
    assert (option.name, option.flags, option.value) == ("num_workers", ("--num-workers", "-j"), 4)
    assert (option.type, option.action, option.raw) == ("int", "store", "4")
    assert option.value_at is not None and option.value_at.column == 57
    assert text[option.name_at.span.start : option.name_at.span.end] == "'--num-workers'"
    assert option.location.line == 1


# --- fields ----------------------------------------------------------------------------------

CLASS = (
    "from dataclasses import dataclass, field\n@dataclass\nclass C:\n  a: int = 4\n"
    "  n: int = field(default=4, metadata={})\n  r: str\n"
    "  l: list = field(default_factory=lambda: ['q', 'v'])\n  e: list = field(default_factory=list)\n"
)


@pytest.mark.parametrize(
    "use",
    [
        "c = C()\nf(x=c.n)\n",
        "c = C(r='a')\nf(x=c.n)\n",
        "def g(c: C):\n  f(x=c.n)\ng(tyro.cli(C))\nimport tyro\n",
        "def g(c: 'C'):\n  f(x=c.n)\ng(C())\n",
        "def g(c: C):\n  f(x=c.n)\nfrom transformers import HfArgumentParser as H\nH((D, C))\n",
        "p = HfArgumentParser(C)\nc = p.parse_args_into_dataclasses()[0]\nf(x=c.n)\n",
        "p = HfArgumentParser((D, C))\nd, c = p.parse_args_into_dataclasses()\nf(x=c.n)\n",
        "p = HfArgumentParser((C,))\n(c,) = p.parse_args_into_dataclasses()\nf(x=c.n)\n",
        "p = HfArgumentParser((D, C))\nif q:\n  d, c = p.parse_json_file(j)\nelse:\n"
        "  d, c = p.parse_args_into_dataclasses()\nf(x=c.n)\n",
        "import tyro\nc = tyro.cli(C)\nf(x=c.n)\n",
        "@dataclass\nclass D(C):\n  z: int = 1\nd = D()\nf(x=d.n)\n",
    ],
)
def test_field(use: str) -> None:
    found = argument(CLASS + use)
    assert (found.value, found.origin, found.key, found.raw) == (4, "field", "n", "4")


@pytest.mark.parametrize(
    ("use", "value"),
    [("c = C(n=8)\nf(x=c.n)\n", 8), ("c = C()\nf(x=c.l)\n", ("q", "v")), ("c = C()\nf(x=c.e)\n", ()),
     ("k = 8\nc = C(n=k)\nf(x=c.n)\n", 8)],
)  # fmt: skip
def test_value_of_an_object(use: str, value: Any) -> None:
    assert argument(CLASS + use).value == value


@pytest.mark.parametrize(
    "use",
    [
        "c = C()\nf(x=c.r)\n",
        "def g(c: C):\n  f(x=c.n)\n",
        "def g(c: C):\n  f(x=c.n)\ng(C())\ng(C(n=8))\n",
        "class P:\n  n = 4\ndef g(c: P):\n  f(x=c.n)\ng(P())\n",
        "c = C(**kw)\nf(x=c.n)\n",
        "c = C(1, 2)\nf(x=c.n)\n",
        "c = C()\nc.n = 8\nf(x=c.n)\n",
        "c = load()\nf(x=c.n)\n",
        "c = C()\nc = C(n=8)\nf(x=c.n)\n",
        "p = HfArgumentParser((D, C))\nd, c = p.parse_args_into_dataclasses()\nf(x=d.n)\n",
        "c = C.load()\nf(x=c.n)\n",
    ],
)
def test_field_that_is_not_certain(use: str) -> None:
    assert isinstance(argument(CLASS + use).value, Unknown)


def test_fields_of_a_module() -> None:
    text = (
        "from transformers import TrainingArguments as T\nfrom dataclasses import dataclass\n"
        "from typing import ClassVar, Optional\n@dataclass\nclass Mine(T):\n"
        "  optim: Optional[str] = 'adamw_torch'\n  k: ClassVar[int] = 1\nclass Plain:\n  a: int = 1\n"
    )
    (field,) = module(text).fields
    assert (field.owner, field.bases) == ("Mine", ("transformers.TrainingArguments",))
    assert (field.name, field.value, field.raw) == ("optim", "adamw_torch", "'adamw_torch'")
    assert field.name_at.line == 6 and field.value_at is not None and field.type == "Optional"


# --- statements ------------------------------------------------------------------------------


def test_assignments() -> None:
    text = (
        "import os, torch\nfrom torch.backends import cudnn\ntorch.backends.cuda.matmul.allow_tf32 = True\n"
        "cudnn.benchmark = q\nos.environ['A'] = '1'\nos.environ.setdefault('B', '2')\n"
        "os.environ.update({'C': '3'}, D='4')\nos.putenv('E', '5')\nmodel.config.use_cache = False\n"
        "g().x = 1\nn = 4\nself.y: int = n\nos.environ[k] = '6'\na = os.environ['Z']\n"
    )
    found = module(text).assignments
    assert [(a.target, a.key, a.weak) for a in found] == [
        ("torch.backends.cuda.matmul.allow_tf32", None, False),
        ("torch.backends.cudnn.benchmark", None, False),
        ("os.environ", "A", False),
        ("os.environ", "B", True),
        ("os.environ", "C", False),
        ("os.environ", "D", False),
        ("os.environ", "E", False),
        ("model.config.use_cache", None, False),
        (".x", None, False),
        ("self.y", None, False),
    ]
    assert [a.value for a in found if not isinstance(a.value, Unknown)] == [
        True, "1", "2", "3", "4", "5", False, 1, 4,
    ]  # fmt: skip
    assert all(text[a.value_at.span.start : a.value_at.span.end] == a.raw for a in found)
    assert [a.location.line for a in found] == [3, 4, 5, 6, 7, 7, 8, 9, 10, 12]


# --- properties ------------------------------------------------------------------------------

literals = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)  # fmt: skip


def flat(value: Any) -> Any:
    """What a reader says of a literal: sequences as tuples, nested ones unknown."""
    if isinstance(value, list | tuple):
        return None if any(isinstance(v, list | tuple) for v in value) else tuple(value)
    return value


@quick
@given(literals, st.sampled_from(["f(x={})", "v = {}\nf(x=v)", "kw = {{'x': {}}}\nf(**kw)"]))
def test_literals_are_what_python_says(value: Any, form: str) -> None:
    text = "# \U0001f525\n" + form.format(repr(value)) + "\n"
    found = argument(text)
    if flat(value) is None and value is not None:
        assert isinstance(found.value, Unknown)
        return
    assert repr(found.value) == repr(flat(value))
    assert repr(ast.literal_eval(found.raw)) == repr(value)


numbers = st.recursive(
    st.integers(0, 99).map(str) | st.sampled_from(["0.5", "1e3", "a", "b"]),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        )
        | inner.map(lambda n: f"-{n}")
    ),
    max_leaves=6,
)


@quick
@given(numbers)
def test_arithmetic_is_what_python_says(text: str) -> None:
    found = argument(f"a = 3\nb = 0.25\nf(x={text})\n")
    try:
        expected = eval(text, {"a": 3, "b": 0.25})
    except ZeroDivisionError:
        assert isinstance(found.value, Unknown)
        return
    if not isinstance(found.value, Unknown):
        assert repr(found.value) == repr(expected)
