"""Where autocast goes, and what it must not be put around."""

from __future__ import annotations

import ast
import re

from pitstop.rules.pysource import PyModule
from pitstop.transforms.patch import Refused
from pitstop.transforms.training_step import Step, forward_of

_CHOSEN = re.compile(r"autocast|gradscaler|grad_scaler|(?:^|_)(?:amp|fp16|bf16)(?:_|$)|bfloat16$")
_CASTS = frozenset({"half", "bfloat16", "double"})
_UNSAFE = {
    "torch.nn.BCELoss": "BCEWithLogitsLoss",
    "torch.nn.functional.binary_cross_entropy": "binary_cross_entropy_with_logits",
}


def autocast_region(step: Step) -> tuple[ast.stmt, ...] | Refused:
    """The statements of a step to compute in 16 bits, in a file that chooses no precision yet."""
    module = step.module
    for call in module.calls:
        if call.name in _UNSAFE:
            short = call.name.rpartition(".")[2]
            return Refused(f"{short} raises an error under autocast; use {_UNSAFE[call.name]}")
        if isinstance(call.node.func, ast.Attribute) and call.node.func.attr in _CASTS:
            return Refused(f".{call.node.func.attr}() chooses a number format of its own")
    if any(call.name == "torch.set_default_dtype" for call in module.calls):
        return Refused("set_default_dtype chooses a number format of its own")
    return forward_of(step)


def chooses_precision(module: PyModule) -> bool:
    """Whether the file speaks of autocast, a gradient scaler or a 16-bit option."""
    for node in module.nodes(ast.Name, ast.Attribute, ast.arg, ast.keyword):
        word = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "arg", "")
        if word and _CHOSEN.search(word.lower()):
            return True
    return False
