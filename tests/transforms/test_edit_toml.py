"""Keys of TOML files: exact text, then properties on generated files judged by tomllib."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitstop.rules.tree import SourceFile
from pitstop.transforms.config_proof import Path
from pitstop.transforms.edit_toml import remove_key, rename_key, set_key
from pitstop.transforms.patch import Changed, Outcome, Refused, Unchanged, apply_edits


def after(text: str, outcome: Outcome) -> str:
    assert isinstance(outcome, Changed), outcome
    return apply_edits(SourceFile("c.toml", text), outcome.patch.edits)


def file(text: str) -> SourceFile:
    return SourceFile("c.toml", text)


TEXT = "# head\nlr = 1e-4  # rate\n\n[model]\nname = 'a'\nsize = 7\n\n[model.lora]\nrank = 8"


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("lr",), 0.5, "1e-4", "0.5"),
        (("model", "name"), "b", "'a'", "'b'"),
        (("model", "lora", "rank"), 16, "8", "16"),
        (("model", "size"), True, "7", "true"),
    ],
)
def test_set_existing(path: Path, value: Any, old: str, new: str) -> None:
    want = TEXT.replace(old, new)
    assert after(TEXT, set_key(file(TEXT), path, value)) == want
    assert isinstance(set_key(file(want), path, value), Unchanged)


@pytest.mark.parametrize(
    ("path", "beside", "before", "line"),
    [
        (("bf16",), None, "lr = 1e-4  # rate", "\nbf16 = true"),
        (("model", "bf16"), ("model", "name"), "name = 'a'", "\nbf16 = true"),
        (("model", "lora", "bf16"), None, "rank = 8", "\nbf16 = true"),
        (("model", "a b"), None, "size = 7", '\n"a b" = true'),
    ],
)
def test_insert_and_remove(path: Path, beside: Path | None, before: str, line: str) -> None:
    want = TEXT.replace(before, before + line)
    assert after(TEXT, set_key(file(TEXT), path, True, beside=beside)) == want
    assert after(want, remove_key(file(want), path)) == TEXT


def test_rename() -> None:
    want = TEXT.replace("size = 7", "parameters = 8")
    assert after(TEXT, rename_key(file(TEXT), ("model", "size"), "parameters", 8)) == want


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("a = [1]\n", ("a",), 1),
        ("a = 1\n", ("a",), None),
        ("a = {b = 1}\n", ("a", "c"), 1),
        ("[t]\na = 1\n", ("b",), 1),
        ("a = 1\na = 2\n", ("a",), 3),
    ],
    ids=["list", "null", "inline table", "no table", "broken file"],
)
def test_refused(text: str, path: Path, value: Any) -> None:
    assert isinstance(set_key(file(text), path, value), Refused)


names = st.sampled_from(["lr", "bf16", "steps", "x-y", "name"])
raws = st.sampled_from(["1", "true", "2.5", '"a # b"', "'c'", "[1, 2]", "1e-5", '"""t"""'])
tails = st.sampled_from(["", "  # note", " # a = 1"])


@st.composite
def tables(draw: st.DrawFn) -> str:
    out = []
    for header in ["", *draw(st.lists(st.sampled_from(["m", "n", "o.p"]), unique=True))]:
        out.append(f"\n# about {header}\n[{header}]\n" if header else "# top\n")
        for name in draw(st.lists(names, unique=True, min_size=1)):
            out.append(f"{name} = {draw(raws)}{draw(tails)}\n")
    text = "".join(out)
    text = text.rstrip("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def places(data: dict[str, Any], at: Path = ()) -> list[Path]:
    found: list[Path] = []
    for key, value in data.items():
        found += places(value, (*at, key)) if isinstance(value, dict) else [(*at, key)]
    return found


def replaced(data: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(data)
    inner: Any = data
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return data


quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
values = st.sampled_from([True, 0, 2.5, 3e-7, "bf16", 'a "b"', "it's"])


@quick
@given(tables(), st.data(), values)
def test_only_the_intended_value_differs(text: str, data: st.DataObject, value: Any) -> None:
    loaded = tomllib.loads(text)
    path = data.draw(st.sampled_from(places(loaded)))
    outcome = set_key(file(text), path, value)
    if isinstance(outcome, Refused | Unchanged):
        assert isinstance(outcome, Unchanged) or "no plain value" in outcome.reason
        return
    changed = after(text, outcome)
    assert tomllib.loads(changed) == replaced(loaded, path, value)
    assert isinstance(set_key(file(changed), path, value), Unchanged)


@quick
@given(tables(), st.data(), values)
def test_insert_and_remove_restores_the_file(text: str, data: st.DataObject, value: Any) -> None:
    loaded = tomllib.loads(text)
    beside = data.draw(st.sampled_from(places(loaded)))
    path = (*beside[:-1], "new")
    changed = after(text, set_key(file(text), path, value, beside=beside))
    assert tomllib.loads(changed) == replaced(loaded, path, value)
    assert after(changed, remove_key(file(changed), path)) == text
