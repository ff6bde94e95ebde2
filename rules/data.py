"""The YAML tables that are shipped with Pitstop: frameworks, catalogues, knobs, models, GPUs.

They are read at every start, so libyaml reads them (0.1 s for all; a pure Python reader takes
0.9 s). What a person writes is read elsewhere, with positions: `pitstop.rules.configs`.
"""

from __future__ import annotations

import importlib.resources
import re
from typing import Any

import yaml


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain data with the words of YAML 1.2: `on`, `yes` and `12:30` are text, `1e-4` is a
    number."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _words, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
     "-+.0123456789"),
):  # fmt: skip
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_words})\Z"), list(_first)
    )


def load_data(package: str, name: str) -> Any:
    """A shipped file as plain data. Each caller keeps what it makes of it."""
    text = importlib.resources.files(package).joinpath(name).read_text("utf-8")
    return parse_data(text)


def parse_data(text: str) -> Any:
    """The text of such a file. Raises yaml.YAMLError."""
    return yaml.load(text, _Loader)  # noqa: S506 - a safe loader, made above
