"""What tests of recipes ask."""

from collections.abc import Mapping

from pitstop.rules.finding import Scalar
from pitstop.rules.tree import SourceFile
from pitstop.transforms.patch import Changed, Refused, Unchanged, apply_edits
from pitstop.transforms.recipe import NO_ARGUMENTS, Recipe, recipes


def changed(recipe: Recipe | str, text: str, args: Mapping[str, Scalar] = NO_ARGUMENTS) -> str:
    """The file after the recipe, which must change it."""
    recipe = recipes()[recipe] if isinstance(recipe, str) else recipe
    file = SourceFile("train.py", text)
    outcome = recipe.apply(file, args)
    assert isinstance(outcome, Changed), outcome
    return apply_edits(file, outcome.patch.edits)


def left_alone(name: str, text: str, args: Mapping[str, Scalar] = NO_ARGUMENTS) -> str:
    """Why the recipe does not change the file."""
    outcome = recipes()[name].apply(SourceFile("train.py", text), args)
    assert isinstance(outcome, Refused | Unchanged), outcome
    return outcome.reason


def lines_of(text: str) -> list[str]:
    """The lines without their ends."""
    return text.splitlines()
