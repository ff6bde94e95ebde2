"""Configuration files made to exhaust a reader: refused with a reason, or read within limits."""

from __future__ import annotations

import pytest

from pitstop.rules.configs import MAX_DEPTH, MAX_ENTRIES, ConfigFile, read_config
from pitstop.rules.tree import SourceFile, UnreadableError

BIG = 100_000


def read(name: str, text: str) -> ConfigFile:
    return read_config(SourceFile(name, text))


def laughs(levels: int, first: str, line: str) -> str:
    rows = [f"a0: &a0 {first}"]
    rows += [f"a{n}: &a{n} " + line.format(n - 1) for n in range(1, levels)]
    return "\n".join(rows) + "\n"


REFUSED = {
    "aliases in sequences": ("c.yaml", laughs(40, "[x, x]", "[*a{0}, *a{0}, *a{0}]")),
    "aliases in mappings": ("c.yaml", laughs(40, "{x: 1}", "{{p: *a{0}, q: *a{0}}}")),
    "merges": ("c.yaml", laughs(40, "{x: 1}", "{{<<: [*a{0}, *a{0}], y: 1}}")),
    "a long sequence through many aliases": (
        "c.yaml", "a: &a [" + "x," * 5000 + "]\n" + "".join(f"k{n}: *a\n" for n in range(100)),
    ),
    "nested flow sequences": ("c.yaml", "[" * BIG),
    "nested flow mappings": ("c.yaml", "{a: " * BIG),
    "nested block sequences": ("c.yaml", "- " * BIG + "x\n"),
    "nested block mappings": ("c.yaml", "".join(" " * n + "a:\n" for n in range(900))),
    "explicit keys": ("c.yaml", "? " * BIG),
    "many values": ("c.yaml", "- x: 1\n" * (MAX_ENTRIES + 1)),
    "one long flow line": ("c.yaml", "[" + "x: y, " * 200_000 + "]"),
    "many documents": ("c.yaml", "--- x\n" * (MAX_ENTRIES + 1)),
    "nested JSON arrays": ("c.json", "[" * BIG),
    "nested JSON objects": ("c.json", '{"a":' * BIG),
    "many JSON values": ("c.json", "[" + "1," * MAX_ENTRIES + "1]"),
    "an endless JSON comment": ("c.json", "/*" * BIG),
    "an endless JSON string": ("c.json", '"' + "\\\\" * BIG),
    "nested TOML arrays": ("c.toml", "a = " + "[" * BIG),
    "nested TOML tables": ("c.toml", "a = " + "{b = " * 20_000),
    "many TOML values": ("c.toml", "".join(f"a{n} = 1\n" for n in range(MAX_ENTRIES + 2))),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    with pytest.raises(UnreadableError):
        read(*REFUSED[case])


READ = {
    "shallow enough": ("c.yaml", "[" * (MAX_DEPTH - 1) + "x" + "]" * (MAX_DEPTH - 1)),
    "one long word": ("c.yaml", "a: " + "x" * 1_000_000),
    "one long quoted text": ("c.json", '{"a": "' + "\U0001f525" * 300_000 + '"}'),
    "one long comment": ("c.json", "//" + "*/" * 500_000 + "\n{}"),
    "many comments": ("c.yaml", "# required\n" * 50_000 + "a: 1\n"),
    "many anchors": ("c.yaml", "".join(f"a{n}: &x {n}\n" for n in range(5_000))),
    "many duplicates": ("c.yaml", "a: 1\n" * 5_000),
    "many JSON duplicates": ("c.json", "{" + '"a": {"b": 1},' * 2_000 + "}"),
    "many interpolations": (
        "c.yaml", "a: 1\n" + "".join(f"k{n}: ${{a}}${{a}}\n" for n in range(3_000)),
    ),
    "interpolations that double": (
        "c.yaml", "a0: x\n" + "".join(f"a{n}: ${{a{n - 1}}}${{a{n - 1}}}\n" for n in range(1, 60)),
    ),
    "many TOML quotes": ("c.toml", "a = '''" + "''x" * 50_000 + "'''"),
    "a long dotted TOML key": ("c.toml", ".".join("a" * 3_000) + " = 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_read_within_limits(case: str) -> None:
    config = read(*READ[case])
    assert len(config.entries) <= MAX_ENTRIES
