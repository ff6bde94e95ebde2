"""The trimmed description, the operations the forge serves, and the forge itself fit together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from demo import api  # noqa: F401 - fills OPERATIONS
from demo.rest.call import OPERATIONS
from demo.routes import find_route, routes

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "demo" / "openapi"


def test_the_description_is_valid_openapi() -> None:
    validate(json.loads((FOLDER / "api.github.com.json").read_text()))


def test_every_operation_that_is_described_is_served() -> None:
    wanted = (FOLDER / "operations.txt").read_text().split()
    assert sorted(route.operation for route in routes()) == sorted(wanted)
    assert sorted(OPERATIONS) == sorted(wanted)


def test_every_operation_names_its_documentation() -> None:
    assert all(route.documentation.startswith("https://docs.github.com/") for route in routes())


def test_notices_stand_beside_what_others_wrote() -> None:
    assert "MIT License" in (FOLDER / "NOTICE").read_text()
    assert "MIT" in (Path(__file__).parent / "webhooks" / "NOTICE").read_text()


@pytest.mark.parametrize(
    ("method", "path", "operation", "words"),
    [
        ("GET", "/repos/a/b/contents/", "repos/get-content", {"path": ""}),
        ("GET", "/repos/a/b/contents/x/y%20z", "repos/get-content", {"path": "x/y z"}),
        ("GET", "/repos/a/b/compare/v1...f/x", "repos/compare-commits-with-basehead", {}),
        ("GET", "/repos/a/b/git/ref/heads/x/y", "git/get-ref", {"ref": "heads/x/y"}),
        ("GET", "/repos/a/b/commits/f/x/check-runs", "checks/list-for-ref", {"ref": "f/x"}),
        ("GET", "/repos/a/b/pulls/comments/7", "pulls/get-review-comment", {"comment_id": "7"}),
        ("GET", "/repos/a/b/pulls/7", "pulls/get", {"pull_number": "7"}),
        ("DELETE", "/repos/a/b/issues/7/labels/x%2Fy", "issues/remove-label", {"name": "x/y"}),
    ],
)
def test_paths_find_their_operation(
    method: str, path: str, operation: str, words: dict[str, str]
) -> None:
    match = find_route(method, path)
    assert match is not None and match.route.operation == operation
    assert words.items() <= match.words.items()


def test_the_forge_needs_only_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import demo.forge, demo.run_demo"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
