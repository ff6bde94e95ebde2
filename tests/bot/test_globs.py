import pytest

from pitstop.bot import globs


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*.sh", "run.sh"),
        ("*.sh", "a/b/run.sh"),
        ("legacy/", "legacy/a/run.sh"),
        ("legacy", "x/legacy/run.sh"),
        ("a/b", "a/b/c.py"),
        ("/run.sh", "run.sh"),
        ("./a/*.py", "a/x.py"),
        ("**/old/*.sh", "old/x.sh"),
        ("**/old/*.sh", "a/b/old/x.sh"),
        ("a/**", "a/b/c"),
        ("a/**/z.py", "a/z.py"),
        ("a/**/z.py", "a/b/c/z.py"),
        ("run?.py", "run1.py"),
        ("run[0-9].py", "run7.py"),
        ("run[!0-9].py", "runx.py"),
        ("train.py", "train.py"),
        ("数据/*", "数据/表.yaml"),
        ("a+b(c).py", "a+b(c).py"),
    ],
)
def test_covered(pattern: str, path: str) -> None:
    assert globs.matches(path, [pattern])


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*.sh", "run.sh.bak"),
        ("a/*.py", "a/b/x.py"),
        ("a/b", "x/a/b"),
        ("/run.sh", "a/run.sh"),
        ("run?.py", "run/.py"),
        ("legacy", "legacy2/x"),
        ("run[!0-9].py", "run7.py"),
        ("a.py", "axpy"),
        ("run[.py", "runx.py"),
    ],
)
def test_not_covered(pattern: str, path: str) -> None:
    assert not globs.matches(path, [pattern])


def test_no_pattern_covers_nothing() -> None:
    assert not globs.matches("a", [])
