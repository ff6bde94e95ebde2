"""The shipped tables: read by libyaml as a YAML 1.2 reader with positions would read them."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
import ruamel.yaml
import yaml

from pitstop.rules.data import load_data, parse_data

TABLES = [
    (package, entry.name)
    for package in ("pitstop.rules", "pitstop.rules.frameworks", "pitstop.rules.catalogues")
    for entry in files(package).iterdir()
    if entry.name.endswith(".yaml")
]


def typed(value: Any) -> Any:
    """The value with the type of each scalar beside it: True is not 1 here."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [typed(inner) for inner in value]
    return type(value), value


@pytest.mark.parametrize(("package", "name"), TABLES)
def test_a_shipped_table_reads_as_yaml_1_2_without_duplicate_keys(package: str, name: str) -> None:
    text = files(package).joinpath(name).read_text("utf-8")
    strict = ruamel.yaml.YAML(typ="safe", pure=True)  # refuses duplicate keys
    assert typed(load_data(package, name)) == typed(strict.load(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("yes", "yes"), ("off", "off"), ("12:30", "12:30"), ("1_000", "1_000"),
        ("2026-12-01", "2026-12-01"), ("bf16", "bf16"), ("nullable", "nullable"),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("-", [None]),
        ("7", 7), ("-7", -7), ("1e-4", 1e-4), ("1.", 1.0), (".5", 0.5), ("4.57.6", "4.57.6"),
    ],
)  # fmt: skip
def test_words_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    assert typed(parse_data(text)) == typed(value)


def test_an_unquoted_on_may_be_a_key() -> None:
    assert parse_data("on: [flag]") == {"on": ["flag"]}


def test_nothing_but_plain_data_is_made() -> None:
    with pytest.raises(yaml.YAMLError):
        parse_data("!!python/object/apply:os.getcwd []")
