"""Training loops of a project's own whose whole program stays in fp32."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Location
from pitstop.rules.step_code import gpu_modules, imported, libraries, managed

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import Call, PyModule

_CHOOSES = re.compile(
    r"(?<![a-z])(amp|fp16|bf16|fp8|half|autocast|bfloat16|float16|mixed_?precision|precision"
    r"|gradscaler|grad_scaler)(?![a-z])",
    re.IGNORECASE,
)
_SMALL = 65_536  # weights: below this a product costs less than its launch
_EXACT = frozenset({"float64", "double", "DoubleTensor", "complex64", "complex128"})
_HEAVY = re.compile(
    r"^(torch\.nn\.(Linear|Conv\d?d|ConvTranspose\d?d|MultiheadAttention|Transformer\w*|LSTM|GRU"
    r"|Bilinear)|torch\.nn\.functional\.(linear|conv\d?d|scaled_dot_product_attention)"
    r"|torchvision\.models\..+|timm\.create_model|transformers\..+\.from_(pretrained|config)"
    r"|torch\.hub\.load|diffusers\..+)$"
)
_OWN_PRECISION = ("apex", "transformer_engine", "megatron", "fairscale", "torch_xla", "paddle")


def fp32_loops(facts: ProjectFacts) -> Iterator[tuple[PyModule, Location, tuple[PyModule, ...]]]:
    """The first step loop of each program with products worth a tensor core that nowhere speaks
    of another precision: its module, its first line, and all modules of the program."""
    for module in gpu_modules(facts):
        loop = next((one for one in module.train_loops if one.kind == "step"), None)
        if loop is None or managed(module):
            continue
        program = (module, *program_of(module, facts))
        if any(_speaks_of_precision(part) for part in program):
            continue
        if any(heavy(call) for part in program for call in part.calls):
            yield module, head_of(module, loop.node), program


def head_of(module: PyModule, loop: ast.AST) -> Location:
    """A loop's first line."""
    at = module.location(loop)
    end = at.span.start + len(module.file.line_text(at.line)) - at.column + 1
    return module.file.location(at.span.start, end)


def program_of(module: PyModule, facts: ProjectFacts) -> list[PyModule]:
    """The modules that run with this one: those of its jobs, and what it imports."""
    paths = {path for job in facts.jobs if module.path in job.files for path in job.files}
    found = {path: part for path in sorted(paths) if (part := facts.modules.get(path))}
    found |= {part.path: part for part in imported(module, facts)}
    found.pop(module.path, None)
    return list(found.values())


def _speaks_of_precision(module: PyModule) -> bool:
    """Whether a module names a 16-bit or 64-bit type, autocast, or a library of that kind."""
    if libraries(module) & set(_OWN_PRECISION):
        return True
    kinds = (ast.Name, ast.Attribute, ast.keyword, ast.arg, ast.alias, ast.Constant)
    for node in module.nodes(*kinds):
        word = ""
        if isinstance(node, ast.Name):
            word = node.id
        elif isinstance(node, ast.Attribute):
            word = node.attr
        elif isinstance(node, ast.keyword | ast.arg):
            word = node.arg or ""
        elif isinstance(node, ast.alias):
            word = node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value if len(node.value) < 40 else ""
        if word and (_CHOOSES.search(word) or word in _EXACT):
            return True
    return False


def heavy(call: Call) -> bool:
    """A layer whose products are worth a tensor core; a linear one of known size only if large."""
    if not _HEAVY.match(call.name):
        return False
    if call.name != "torch.nn.Linear":
        return True
    sides = [call.argument("in_features", 0), call.argument("out_features", 1)]
    sizes = [side.value for side in sides if side is not None and isinstance(side.value, int)]
    return len(sizes) < 2 or sizes[0] * sizes[1] >= _SMALL
