"""Attention written out step by step, recognised: softmax(q k^T scale, masked) v.

The steps may be spread over assignments to one name (`att = ...; att = softmax(att)`); they are
put together into one expression, which is then taken apart from the outside. What is not exactly
one of the known steps is refused.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from pitstop.rules.pysource import Call, PyModule
from pitstop.transforms.attention_parts import (
    Parts,
    dropout,
    fill,
    product,
    scale,
    softmax,
)
from pitstop.transforms.patch import Refused
from pitstop.transforms.training_step import block_of, inner, statement_of, stores


@dataclass(frozen=True, slots=True)
class Attention:
    """Where attention is computed: `output` is the expression of the last product, `before` the
    statements that only prepare it, `arguments` those of the fused function, as text."""

    output: ast.expr
    before: tuple[ast.stmt, ...]
    arguments: tuple[str, ...]

    @property
    def scaled(self) -> bool:
        """Whether the scale is not the function's own."""
        return any(text.startswith("scale=") for text in self.arguments)


@dataclass(frozen=True, slots=True)
class _Chain:
    """The weights as one expression; `optional` is the test under which the mask is applied."""

    weights: ast.expr
    before: tuple[ast.stmt, ...]
    names: frozenset[str]
    optional: str | None = None


def attention_of(module: PyModule, call: Call) -> Attention | Refused | None:
    """The attention whose softmax a call is; None when it is another softmax."""
    function = module.enclosing_function(call.node)
    if function is None:
        return None
    parts = Parts(module, function)
    statement = statement_of(module, call.node)
    found = _output(parts, call.node, statement)
    if found is None:
        return None
    output, weights, value = found
    chain = _gathered(parts, output, weights)
    if isinstance(chain, Refused):
        return chain
    return _taken_apart(parts, output, chain, value)


def _output(
    parts: Parts, softmax_call: ast.Call, statement: ast.stmt
) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """(the product, its weights, its values) that the softmax ends in: in the same statement, or
    in a later one of the block that multiplies the name it is assigned to."""
    name = _assigned(statement)
    block = block_of(parts.module, statement)
    for later in block[block.index(statement) :]:
        for node in inner(later):
            pair = product(parts.module, node) if isinstance(node, ast.expr) else None
            if pair is None:
                continue
            left = pair[0]
            within = later is statement and softmax_call in set(ast.walk(left))
            named = later is not statement and name and name in _names(left)
            if isinstance(node, ast.expr) and (within or named):
                return node, left, pair[1]
    return None


def _gathered(parts: Parts, output: ast.expr, weights: ast.expr) -> _Chain | Refused:
    """Put the assignments that lead to the weights together."""
    last = statement_of(parts.module, output)
    block = block_of(parts.module, last)
    before: list[ast.stmt] = []
    names: set[str] = set()
    optional: str | None = None
    at = block.index(last)
    expression = weights
    while (name := _spine(parts, expression)) is not None:
        at -= 1
        while at >= 0 and not stores(block[at], name):
            if name in _names(block[at]):
                return Refused(f"{name} is used between the steps of the attention")
            at -= 1
        if at < 0:
            break
        test, value = _value(block[at], name)
        if value is None:
            break
        if test is not None and optional is not None:
            return Refused("more than one step is under a condition")
        optional = optional or test
        before.append(block[at])
        names.add(name)
        expression = _substituted(parts, expression, value)
    if _used_elsewhere(parts, names, (*before, last)):
        return Refused("the attention weights are used elsewhere")
    moved = _names(expression)
    steps = block[at : block.index(last)]
    if any(stores(s, n) for s in steps for n in moved - names if s not in before):
        return Refused("what the attention reads changes between its steps")
    return _Chain(expression, tuple(reversed(before)), frozenset(names), optional)


def _taken_apart(
    parts: Parts, output: ast.expr, chain: _Chain, value: ast.expr
) -> Attention | Refused:
    arguments: dict[str, str] = {}
    rest = chain.weights
    drop = dropout(parts, rest)
    if drop is not None:
        rest, arguments["dropout_p"] = drop
    inside = softmax(parts, rest)
    if inside is None:
        return Refused("a step between softmax and the values is not understood")
    rest = inside
    factors: list[str] = []
    while True:
        filled, scaled = fill(parts, rest), scale(parts, rest)
        if isinstance(filled, Refused) or isinstance(scaled, Refused):
            return filled if isinstance(filled, Refused) else scaled  # type: ignore[return-value]
        if filled is not None and not {"attn_mask", "is_causal"} & set(arguments):
            rest, name, text = filled
            arguments[name] = text
        elif scaled is not None and not factors:
            rest, factor = scaled
            factors.append(factor)
        else:
            break
    pair = product(parts.module, rest)
    keys = parts.transposed(pair[1]) if pair else None
    if pair is None or keys is None:
        return Refused("the scores are not a plain product of queries and transposed keys")
    factor = factors[0] if factors else "1.0"
    if factor not in parts.default_scales(pair[0], keys):
        arguments["scale"] = factor
    if chain.optional is not None:
        if "attn_mask" not in arguments:
            return Refused("a condition decides about a step that is no mask")
        arguments["attn_mask"] = f"{arguments['attn_mask']} if {chain.optional} else None"
    order = ("attn_mask", "dropout_p", "is_causal", "scale")
    given = [f"{name}={arguments[name]}" for name in order if name in arguments]
    tensors = [ast.unparse(node) for node in (pair[0], keys, value)]
    return Attention(output, chain.before, (*tensors, *given))


def _spine(parts: Parts, expression: ast.expr) -> str | None:
    """The name at the heart of an expression of steps; None when it ends in a product."""
    node: ast.expr = expression
    while not isinstance(node, ast.Name):
        following = parts.heart(node)
        if following is None:
            return None
        node = following
    return node.id


def _value(statement: ast.stmt, name: str) -> tuple[str | None, ast.expr | None]:
    """(the condition, the expression) that a statement assigns to a name."""
    test = None
    if isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
        test = ast.unparse(statement.test)
        (statement,) = statement.body
        if not test.endswith(" is not None"):
            return None, None
    if isinstance(statement, ast.AugAssign) and _assigned(statement) == name:
        left = ast.Name(name, ast.Load())
        return test, ast.BinOp(left, statement.op, statement.value)
    if isinstance(statement, ast.Assign) and _assigned(statement) == name:
        return test, statement.value
    return None, None


def _assigned(statement: ast.stmt) -> str | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AugAssign) else targets
    only = targets[0] if len(targets) == 1 else None
    return only.id if isinstance(only, ast.Name) else None


def _substituted(parts: Parts, expression: ast.expr, value: ast.expr) -> ast.expr:
    """An expression with the name at its heart replaced; everything else is shared with it."""
    heart = parts.heart(expression)
    if heart is None or isinstance(expression, ast.Name):
        return value
    new = copy.copy(expression)
    inside = _substituted(parts, heart, value)
    if isinstance(new, ast.BinOp):
        new.left = inside
    elif isinstance(new, ast.Call) and heart in new.args:
        new.args = [inside if arg is heart else arg for arg in new.args]
    elif isinstance(new, ast.Call) and isinstance(new.func, ast.Attribute):
        new.func = copy.copy(new.func)
        new.func.value = inside
    return new


def _used_elsewhere(parts: Parts, names: set[str], chain: tuple[ast.stmt, ...]) -> bool:
    inside = {id(node) for statement in chain for node in ast.walk(statement)}
    return any(
        isinstance(node, ast.Name)
        and node.id in names
        and isinstance(node.ctx, ast.Load)
        and id(node) not in inside
        for node in ast.walk(parts.function)
    )


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
