"""Benchmarks are not run by the tests, but they must at least load."""

import importlib.util
from pathlib import Path

import pytest

BENCHES = sorted((Path(__file__).parents[2] / "bench").glob("*.py"))


@pytest.mark.parametrize("path", BENCHES, ids=lambda path: path.stem)
def test_a_bench_loads(path, monkeypatch):
    monkeypatch.syspath_prepend(str(path.parent))  # as when it is run
    spec = importlib.util.spec_from_file_location(f"bench_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert callable(getattr(module, "main", None)) or path.stem == "made"
