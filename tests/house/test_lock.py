"""The locks of the image and of CI fit what the package asks for, and each other."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PYPROJECT["dependency-groups"]


def pins(name: str) -> dict[str, Version]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", text, flags=re.MULTILINE)
    return {canonicalize_name(package): Version(version) for package, version in found}


def asked(group: str) -> list[Requirement]:
    items: list[Requirement] = []
    for item in GROUPS[group]:
        items += [Requirement(item)] if isinstance(item, str) else asked(item["include-group"])
    return items


RUNTIME = [Requirement(text) for text in PYPROJECT["project"]["dependencies"]]


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("image", RUNTIME),
        ("build", asked("build")),
        ("dev", RUNTIME + asked("dev")),
        ("models", asked("models")),
    ],
)
def test_lock_has_what_is_asked_for(lock: str, wanted: list[Requirement]) -> None:
    pinned = pins(lock)
    for requirement in wanted:
        version = pinned[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement} in {lock}.txt: run `make lock`"


def test_ci_tests_what_the_image_ships() -> None:
    dev = pins("dev")
    assert {name: dev.get(name) for name in pins("image")} == pins("image")


@pytest.mark.parametrize("lock", ["image", "build", "dev", "models"])
def test_every_pin_has_a_hash_and_no_address(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    assert "://" not in text
    for block in re.split(r"\n(?=\S)", text):
        if not block.startswith("#"):
            assert "--hash=sha256:" in block, block


def test_dependencies_have_lower_bounds_only() -> None:
    for requirement in RUNTIME:
        assert [specifier.operator for specifier in requirement.specifier] == [">="], requirement


def test_build_system_and_its_lock_ask_for_the_same() -> None:
    assert PYPROJECT["build-system"]["requires"] == GROUPS["build"]
