"""The forge's GraphQL tables say what GitHub's published schema says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from demo.graphql import TYPES
from demo.graphql_mutations import INPUTS

PUBLISHED = json.loads((Path(__file__).parent / "graphql" / "types.json").read_text())
OBJECTS = {type_ for type_ in PUBLISHED if not type_.endswith("Input")}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_fields_types_and_arguments(name: str) -> None:
    assert set(TYPES[name].fields) <= set(PUBLISHED[name])
    for word, field in TYPES[name].fields.items():
        published = PUBLISHED[name][word]
        bare = re.sub(r"[\[\]!]", "", published["type"])
        assert field.type == (bare if bare in OBJECTS else None), f"{name}.{word}: {bare}"
        assert field.arguments <= set(published["arguments"]), f"{name}.{word}"


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_members_of_inputs(name: str) -> None:
    published = dict(PUBLISHED[name[:1].upper() + name[1:] + "Input"])
    assert published.pop("clientMutationId") == "String"
    wanted = {member + "!" * written.endswith("!") for member, written in published.items()}
    served = set(INPUTS[name].split())
    assert served <= wanted
    assert {member for member in wanted if member.endswith("!")} <= served
