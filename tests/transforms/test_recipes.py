"""Every recipe on its own examples. The one test of all recipes: text, meaning, and numbers."""

import ast
import contextlib
import io
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath
from types import ModuleType

import pytest

from pitstop.rules.tree import DictTree, SourceFile
from pitstop.transforms.patch import Changed, Refused, Unchanged, apply_edits, apply_patches
from pitstop.transforms.recipe import Example, Numerics, Recipe, Refusal, recipes
from tests.transforms.recipe_texts import changed, lines_of

RECIPES = tuple(recipes().values())
TOLERANCE = {Numerics.EXACT: 0.0, Numerics.EQUIVALENT: 1e-5, Numerics.PRECISION: 1e-2}


def examples() -> Iterator[object]:
    for recipe in RECIPES:
        for number, example in enumerate(recipe.examples, 1):
            yield pytest.param(recipe, example, id=f"{recipe.id}-{number}")


def refusals() -> Iterator[object]:
    for recipe in RECIPES:
        for number, refusal in enumerate(recipe.refuses, 1):
            yield pytest.param(recipe, refusal, id=f"{recipe.id}-{number}")


@pytest.mark.parametrize(("recipe", "example"), list(examples()))
def test_an_example_becomes_what_it_says(recipe: Recipe, example: Example) -> None:
    after = changed(recipe, example.before, example.args)
    assert after == example.after
    compile(after, "train.py", "exec", dont_inherit=True)


@pytest.mark.parametrize(("recipe", "example"), list(examples()))
def test_a_second_run_changes_nothing(recipe: Recipe, example: Example) -> None:
    outcome = recipe.apply(SourceFile("train.py", example.after), example.args)
    assert isinstance(outcome, Unchanged), outcome


@pytest.mark.parametrize(("recipe", "refusal"), list(refusals()))
def test_a_refusal_says_why(recipe: Recipe, refusal: Refusal) -> None:
    outcome = recipe.apply(SourceFile("train.py", refusal.text), refusal.args)
    assert isinstance(outcome, Refused), outcome
    assert refusal.reason in outcome.reason


@pytest.mark.parametrize(
    ("recipe", "example"), [p for p in examples() if getattr(p, "values", ())[1].runs]
)
def test_a_program_computes_the_same_before_and_after(recipe: Recipe, example: Example) -> None:
    if recipe.id == "compile-model" and not shutil.which("gcc"):
        pytest.skip("torch.compile needs a C compiler")
    # A process that has used threads must not fork, and a process group's end may hang for ever
    # on the interpreter's lock (its destructor joins a thread that wants it).
    apart = any(word in example.after for word in ("num_workers", "init_process_group"))
    run = printed_apart if apart else printed
    before, after = run(example.before), run(example.after)
    assert before, "the program prints nothing to compare"
    if recipe.id == "log-now-and-then":
        assert set(after) < set(before)
        return
    if recipe.numerics is Numerics.EXACT:
        assert after == before
        return
    found, wanted = numbers(after), numbers(before)
    assert len(found) == len(wanted)
    assert found == pytest.approx(wanted, rel=TOLERANCE[recipe.numerics])


def printed(text: str) -> list[str]:
    """The lines that a program prints when it runs on the CPU with fixed seeds, in a module of
    its own; what it changed in PyTorch is put back."""
    torch = pytest.importorskip("torch")
    if "transformers" in text:
        pytest.importorskip("transformers")
    random.seed(0)
    torch.manual_seed(0)
    precision, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    out = io.StringIO()
    module = ModuleType("__program__")
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(text, "train.py", "exec", dont_inherit=True), module.__dict__)
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.benchmark = benchmark
    return out.getvalue().splitlines()


def printed_apart(text: str) -> list[str]:
    """The same in a process of its own, which ends without taking anything down."""
    pytest.importorskip("torch")
    end = "import os, sys\nsys.stdout.flush()\nos._exit(0)\n"
    seeded = f"import torch\ntorch.manual_seed(0)\n{text}\n{end}"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", seeded], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def numbers(lines: list[str]) -> list[float]:
    return [float(n) for line in lines for n in re.findall(r"-?\d+\.\d+(?:e-?\d+)?|\d+", line)]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
def test_a_recipe_says_everything_about_itself(recipe: Recipe) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+|tf32", recipe.id)
    home = PurePosixPath(type(recipe).__module__.replace(".", "/"))
    assert home.name.replace("_", "-") == recipe.id
    assert recipe.title
    assert len(recipe.text) > 100
    assert "Refused" in recipe.text
    assert recipe.examples
    assert recipe.refuses
    assert recipe.answers
    assert all(source.startswith("https://") for source in recipe.sources)
    assert recipe.numerics is not Numerics.SEMANTICS or recipe.opt_in
    for example in recipe.examples:
        assert set(example.args) <= set(recipe.arguments)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
def test_an_unknown_argument_is_refused(recipe: Recipe) -> None:
    outcome = recipe.apply(SourceFile("train.py", ""), {"unheard_of": 1})
    assert outcome == Refused(f"{recipe.id} has no argument unheard_of")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
def test_a_file_that_is_not_python_is_refused(recipe: Recipe) -> None:
    outcome = recipe.apply(SourceFile("train.py", "for x in\n"))
    assert isinstance(outcome, Refused)
    assert "line 1" in outcome.reason


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
@pytest.mark.parametrize("text", ["", "x = 1\n", '"""Nothing here."""\nimport torch\n'])
def test_a_file_without_training_is_left_alone(recipe: Recipe, text: str) -> None:
    assert isinstance(recipe.apply(SourceFile("model.py", text)), Unchanged)


def test_three_files_in_one_process_do_not_leak_into_one_another() -> None:
    """The middle file is changed and gets an import; its neighbours must not."""
    recipe = recipes()["no-sync"]
    (example,) = recipe.examples
    files = {
        "a.py": "import os\n\nprint(os.sep)\n",
        "b.py": example.before,
        "c.py": "import torch\n\nx = torch.zeros(1)\n",
    }
    tree = DictTree(files)
    outcomes = {path: recipe.apply(tree.read(path), example.args) for path in tree.paths}
    assert isinstance(outcomes["a.py"], Unchanged)
    assert isinstance(outcomes["c.py"], Unchanged)
    patches = [o.patch for o in outcomes.values() if isinstance(o, Changed)]
    texts, dropped = apply_patches(tree, patches)
    assert not dropped
    assert texts == {"b.py": example.after}


@pytest.mark.parametrize(("recipe", "example"), list(examples()))
@pytest.mark.parametrize("end", ["\r\n", "\n"], ids=["crlf", "lf"])
def test_line_ends_and_a_byte_order_mark_are_kept(
    recipe: Recipe, example: Example, end: str
) -> None:
    before = "\ufeff" + example.before.replace("\n", end)
    after = changed(recipe, before, example.args)
    assert after == "\ufeff" + example.after.replace("\n", end)


@pytest.mark.parametrize(("recipe", "example"), list(examples()))
def test_tabs_and_a_missing_last_line_end_are_kept(recipe: Recipe, example: Example) -> None:
    before = re.sub(r"(?m)^(?: {4})+", lambda m: "\t" * (len(m[0]) // 4), example.before)
    after = changed(recipe, before.rstrip("\n"), example.args)
    assert not after.endswith("\n")
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(example.after))
    indented = [line for line in lines_of(after) if line.startswith("    ")]
    assert not [line for line in indented if line not in lines_of(before) and "=" not in line]


@pytest.mark.parametrize(("recipe", "example"), list(examples()))
def test_comments_are_kept(recipe: Recipe, example: Example) -> None:
    """All but those on the lines of statements that go."""
    old = re.findall(r"#.*", example.before)
    gone = [c for c in old if example.after.count(c) < example.before.count(c)]
    removed = [line for line in lines_of(example.before) if line not in lines_of(example.after)]
    assert all(any(comment in line for line in removed) for comment in gone)


@pytest.mark.parametrize(("recipe", "example"), list(examples()))
def test_edits_do_not_depend_on_their_order(recipe: Recipe, example: Example) -> None:
    file = SourceFile("train.py", example.before)
    outcome = recipe.apply(file, example.args)
    assert isinstance(outcome, Changed)
    edits = outcome.patch.edits
    assert apply_edits(file, reversed(edits)) == apply_edits(file, edits) == example.after
