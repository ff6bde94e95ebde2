"""What a fix may do to the numbers: the class by which its loss curve is judged."""

from __future__ import annotations

from collections.abc import Mapping

from pitstop.rules.finding import Fix
from pitstop.transforms.recipe import Numerics, recipes

_BY_KNOB: Mapping[str, Numerics] = {
    "precision": Numerics.PRECISION,
    "quantization": Numerics.SEMANTICS,
    "data": Numerics.SEMANTICS,
    "data.preprocess_workers": Numerics.EXACT,
    "data.streaming": Numerics.SEMANTICS,
    "batch": Numerics.SEMANTICS,
    "batch.eval": Numerics.EXACT,
    "optimizer.name": Numerics.SEMANTICS,
    "adapter": Numerics.SEMANTICS,
    "model": Numerics.SEMANTICS,
    "train": Numerics.SEMANTICS,
    "dataloader.pin_memory": Numerics.EXACT,
    "dataloader.prefetch_factor": Numerics.EXACT,
    "dataloader.non_blocking": Numerics.EXACT,
    "dataloader.drop_last": Numerics.SEMANTICS,
    "activation_checkpointing": Numerics.EXACT,
    "log": Numerics.EXACT,
    "save": Numerics.EXACT,
    "eval": Numerics.EXACT,
}


def numerics_of(fix: Fix) -> Numerics:
    """A recipe's own class, else that of the knob (the longest name that it begins with).

    A knob that is not listed is EQUIVALENT: the same mathematics, held to the strict tolerance,
    so that a change which does more than that is found out by its losses.
    """
    recipe = recipes().get(fix.transform)
    if recipe is not None:
        return recipe.numerics
    knob = str(fix.args.get("knob", ""))
    while knob:
        if knob in _BY_KNOB:
            return _BY_KNOB[knob]
        knob = knob.rpartition(".")[0]
    return Numerics.EQUIVALENT
