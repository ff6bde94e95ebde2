"""Comments and blank lines anywhere: they stay, and everything else is as without them."""

import io
import tokenize

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pitstop.rules.tree import SourceFile
from pitstop.transforms.patch import Changed, Refused, apply_edits
from pitstop.transforms.recipe import Example, Recipe, recipes

CASES = [(recipe, example) for recipe in recipes().values() for example in recipe.examples]
NOISE = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from(["blank", "comment", "indented"])),
    min_size=1,
    max_size=4,
)


def with_noise(text: str, noise: list[tuple[int, str]]) -> tuple[str, list[str]]:
    """The text with lines put between its own, and the comments among them. Nothing is put into
    a text of several lines."""
    lines = text.splitlines(keepends=True)
    closed = [n for n in range(len(lines) + 1) if n not in inside_strings(text)]
    comments = []
    places = sorted(((closed[at % len(closed)], kind) for at, kind in noise), reverse=True)
    for number, (at, kind) in enumerate(places):
        line = "\n"
        if kind != "blank":
            comments.append(f"# 中 noise {number}")
            following = lines[at] if at < len(lines) else ""
            indent = following[: len(following) - len(following.lstrip(" "))]
            line = (indent if kind == "indented" else "") + comments[-1] + "\n"
        lines.insert(at, line)
    return "".join(lines), comments


def inside_strings(text: str) -> set[int]:
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            found |= set(range(token.start[0], token.end[0]))
    return found


def essence(text: str, comments: list[str]) -> list[str]:
    """The lines that are neither blank nor one of the comments."""
    return [line for line in text.splitlines() if line.strip() and line.strip() not in comments]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(CASES), noise=NOISE)
def test_noise_stays_and_changes_nothing_else(
    case: tuple[Recipe, Example], noise: list[tuple[int, str]]
) -> None:
    recipe, example = case
    text, comments = with_noise(example.before, noise)
    file = SourceFile("train.py", text)
    outcome = recipe.apply(file, example.args)
    if isinstance(outcome, Refused):
        assert "comment" in outcome.reason
        return
    assert isinstance(outcome, Changed)
    after = apply_edits(file, outcome.patch.edits)
    left, wanted = essence(after, comments), essence(example.after, [])
    if recipe.id.startswith("drop-"):  # a comment above a call keeps that call
        assert set(wanted) <= set(left) <= set(example.before.splitlines())
    else:
        assert left == wanted
    assert [after.count(comment) for comment in comments] == [1] * len(comments)
    again = recipe.apply(SourceFile("train.py", after), example.args)
    assert not isinstance(again, Changed)


@settings(max_examples=60, deadline=None)
@given(case=st.sampled_from(CASES), cut=st.integers(1, 400))
def test_a_broken_file_is_refused_or_changed_into_python(
    case: tuple[Recipe, Example], cut: int
) -> None:
    recipe, example = case
    lines = example.before.splitlines(keepends=True)
    assume(len(lines) > 3)
    del lines[cut % len(lines)]
    file = SourceFile("train.py", "".join(lines))
    outcome = recipe.apply(file, example.args)
    if isinstance(outcome, Changed):
        compile(apply_edits(file, outcome.patch.edits), "train.py", "exec", dont_inherit=True)
