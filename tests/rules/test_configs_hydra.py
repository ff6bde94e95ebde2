"""Hydra's defaults lists, followed in a tree of files."""

from __future__ import annotations

from typing import Any

import pytest

from pitstop.rules.configs import ConfigFile, resolve_hydra
from pitstop.rules.finding import Unknown
from pitstop.rules.tree import DictTree


def compose(files: dict[str, str], name: str = "conf/train.yaml") -> ConfigFile:
    tree = DictTree(files)
    return resolve_hydra(tree.read(name), tree)


def values(config: ConfigFile) -> dict[str, Any]:
    return {".".join(map(str, e.path)): e.value for e in config.entries}


MODEL = {"conf/model/llama.yaml": "size: 7\nlayers: 32\n"}
OPTIM = {"conf/optim/adamw.yaml": "name: adamw\nlr: 1e-4\n"}

CASES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "a group goes under its name": (
        {"conf/train.yaml": "defaults:\n  - model: llama\nsteps: 5\n", **MODEL},
        {"model.size": 7, "model.layers": 32, "steps": 5},
    ),
    "own values come last by default": (
        {"conf/train.yaml": "defaults:\n- model: llama\nmodel: {size: 1}\n", **MODEL},
        {"model.layers": 32, "model.size": 1},
    ),
    "own values first with _self_ first": (
        {"conf/train.yaml": "defaults:\n- _self_\n- model: llama\nmodel: {size: 1}\n", **MODEL},
        {"model.layers": 32, "model.size": 7},
    ),
    "a plain name is merged at the top": (
        {"conf/train.yaml": "defaults: [base]\nb: 2\n", "conf/base.yaml": "a: 1\nb: 1\n"},
        {"a": 1, "b": 2},
    ),
    "a plain name in a group goes under the group": (
        {"conf/train.yaml": "defaults: [model/llama]\n", **MODEL},
        {"model.size": 7, "model.layers": 32},
    ),
    "package directive": (
        {"conf/train.yaml": "defaults:\n- model: llama\n",
         "conf/model/llama.yaml": "# @package _global_\nsize: 7\n"},
        {"size": 7},
    ),
    "package in the list": (
        {"conf/train.yaml": "defaults:\n- model@teacher: llama\n- /optim@net.x: adamw\n",
         **MODEL, **OPTIM},
        {"teacher.size": 7, "teacher.layers": 32, "net.x.name": "adamw", "net.x.lr": 0.0001},
    ),
    "nested lists are relative to their own group": (
        {"conf/train.yaml": "defaults:\n- model: big\n",
         "conf/model/big.yaml": "defaults:\n- base\n- attention: flash\nsize: 70\n",
         "conf/model/base.yaml": "size: 1\nact: silu\n",
         "conf/model/attention/flash.yaml": "kind: fa2\n"},
        {"model.act": "silu", "model.attention.kind": "fa2", "model.size": 70},
    ),
    "a leading slash means the root": (
        {"conf/train.yaml": "defaults:\n- model: big\n",
         "conf/model/big.yaml": "defaults:\n- /optim: adamw\n", **OPTIM},
        {"model.optim.name": "adamw", "model.optim.lr": 0.0001},
    ),
    "several options of one group": (
        {"conf/train.yaml": "defaults:\n- data: [a, b]\n", "conf/data/a.yaml": "x: 1\ny: 1\n",
         "conf/data/b.yaml": "y: 2\n"},
        {"data.x": 1, "data.y": 2},
    ),
    "optional ones may be missing": (
        {"conf/train.yaml": "defaults:\n- optional local: mine\n- model: null\na: 1\n"},
        {"a": 1},
    ),
    "a later override chooses the option": (
        {"conf/train.yaml": "defaults:\n- model: small\n- override model: llama\n",
         "conf/model/small.yaml": "size: 1\n", **MODEL},
        {"model.size": 7, "model.layers": 32},
    ),
    "an inner override changes an earlier choice": (
        {"conf/train.yaml": "defaults:\n- model: small\n- exp: e\n",
         "conf/model/small.yaml": "size: 1\n",
         "conf/exp/e.yaml": "# @package _global_\ndefaults:\n- override /model: llama\nx: 3\n",
         **MODEL},
        {"model.size": 7, "model.layers": 32, "x": 3},
    ),
    "lists are replaced, not merged": (
        {"conf/train.yaml": "defaults: [base]\nl:\n- {a: 3}\n",
         "conf/base.yaml": "l:\n- {a: 1}\n- {b: 2}\n"},
        {"l.0.a": 3},
    ),
    "overrides of hydra itself are left out": (
        {"conf/train.yaml": "defaults:\n- override hydra/launcher: submitit\na: 1\n"},
        {"a": 1},
    ),
    "interpolation across files": (
        {"conf/train.yaml": "defaults:\n- model: llama\nbase: 2\n",
         "conf/model/llama.yaml": "size: ${base}\nsame: ${.size}\n"},
        {"model.size": 2, "model.same": 2, "base": 2},
    ),
    "no list: as it is": ({"conf/train.yaml": "a: 1\nb: ${a}\n"}, {"a": 1, "b": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_composition(case: str) -> None:
    files, expected = CASES[case]
    config = compose(files)
    assert values(config) == expected
    assert config.unread == ()


def test_the_command_line_chooses() -> None:
    files = {"conf/train.yaml": "defaults:\n- model: ???\na: 1\n", **MODEL}
    tree = DictTree(files)
    config = resolve_hydra(tree.read("conf/train.yaml"), tree, {"model": "llama"})
    assert values(config) == {"model.size": 7, "model.layers": 32, "a": 1}


def test_entries_keep_the_file_that_defines_them() -> None:
    files = {"conf/train.yaml": "defaults:\n- optim: adamw\nsteps: 5\n", **OPTIM}
    config = compose(files)
    places = {".".join(map(str, e.path)): str(e.value_at) for e in config.entries}
    assert places == {
        "optim.name": "conf/optim/adamw.yaml:1:7",
        "optim.lr": "conf/optim/adamw.yaml:2:5",
        "steps": "conf/train.yaml:3:8",
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("- model: nowhere", "not in the repository"),
        ("- model: ???", "only a run"),
        ("- model: ${size}", "only a run"),
        ("- ../../../etc/passwd", "not in the repository"),
    ],
)
def test_what_cannot_be_followed_is_reported(line: str, reason: str) -> None:
    config = compose({"conf/train.yaml": f"a: 1\ndefaults:\n{line}\n"})
    assert values(config) == {"a": 1}
    assert [(u.path, u.line) for u in config.unread] == [("conf/train.yaml", 3)]
    assert reason in config.unread[0].reason


def test_a_broken_file_is_reported_and_the_rest_read() -> None:
    files = {
        "conf/train.yaml": "defaults:\n- model: llama\na: 1\n",
        "conf/model/llama.yaml": "a: [\n",
    }
    config = compose(files)
    assert values(config) == {"a": 1}
    assert [u.path for u in config.unread] == ["conf/model/llama.yaml"]


def test_lists_that_lead_in_a_circle_end() -> None:
    config = compose(
        {"conf/train.yaml": "defaults: [a]\nx: 1\n", "conf/a.yaml": "defaults: [train]\n"}
    )
    assert values(config) == {"x": 1}
    assert config.unread


def test_a_list_that_grows_without_end_ends() -> None:
    group = "defaults: [{x@p: a}, {x@q: a}, {x@r: a}]\nv: 1\n"
    files = {
        "conf/train.yaml": "defaults: [{x: a}]\n",
        "conf/x/a.yaml": group,
        "conf/x/x/a.yaml": group,
    }
    assert compose(files).unread


def test_a_value_replaces_a_section_and_the_other_way_round() -> None:
    files = {
        "conf/train.yaml": "defaults: [base]\na: 1\nb: {c: 2}\n",
        "conf/base.yaml": "a: {x: 1}\nb: 3\nd: ${missing}\n",
    }
    config = compose(files)
    assert isinstance(config.get("d").value, Unknown)  # type: ignore[union-attr]
    assert {k: v for k, v in values(config).items() if k != "d"} == {"a": 1, "b.c": 2}
