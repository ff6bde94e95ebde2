"""The single steps of attention written out: products, scales, masks, softmax, dropout."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pitstop.rules.pyindex import Function
from pitstop.rules.pysource import PyModule
from pitstop.transforms.patch import Refused

_SOFTMAX = ("torch.nn.functional.softmax", "torch.softmax")
_PRODUCTS = ("torch.matmul", "torch.bmm")
_CASTS = ("float", "type_as", "to")
_MINUS_INFINITY = frozenset(
    {"float('-inf')", "-float('inf')", "-math.inf", "-torch.inf", "-np.inf", "-inf"}
)
_ROOTS = frozenset({"math.sqrt", "numpy.sqrt"})


@dataclass(frozen=True, slots=True)
class Parts:
    """The function that attention is computed in, and what its class says of `self`."""

    module: PyModule
    function: Function

    def of_self(self, node: ast.expr) -> ast.expr | None:
        """What `self.name` is set to in the class, when that is one thing."""
        owner = self.module.enclosing_class(self.function)
        if owner is None or not isinstance(node, ast.Attribute):
            return None
        if ast.unparse(node.value) != "self":
            return None
        found = [
            part.value
            for part in ast.walk(owner)
            if isinstance(part, ast.Assign)
            and any(ast.unparse(target) == f"self.{node.attr}" for target in part.targets)
        ]
        return found[0] if len(found) == 1 else None

    def name(self, node: ast.expr) -> str:
        """The qualified name of a function, "" for what is none."""
        return self.module.qualified(node) or ""

    def heart(self, node: ast.expr) -> ast.expr | None:
        """The operand that a step works on; None for a product or an unknown step."""
        if product(self.module, node) is not None:
            return None
        if isinstance(node, ast.BinOp):
            return node.left
        if not isinstance(node, ast.Call):
            return None
        func = node.func
        method = func.attr if isinstance(func, ast.Attribute) else ""
        if method in ("masked_fill", "softmax", *_CASTS) and not self.name(func):
            return func.value if isinstance(func, ast.Attribute) else None
        return node.args[0] if node.args else None

    def transposed(self, node: ast.expr) -> ast.expr | None:
        """`k` of `k.transpose(-2, -1)` and its like."""
        if isinstance(node, ast.Attribute) and node.attr == "mT":
            return node.value
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        dims = [ast.unparse(arg) for arg in node.args]
        known = sorted(dims) in (["-1", "-2"], ["2", "3"])
        return node.func.value if node.func.attr == "transpose" and known else None

    def default_scales(self, query: ast.expr, key: ast.expr) -> frozenset[str]:
        """The texts of the scale that the fused function takes by itself."""
        sizes = [
            f"{ast.unparse(t)}{size}" for t in (query, key) for size in (".size(-1)", ".shape[-1]")
        ]
        roots = [f"1.0 / math.sqrt({size})" for size in sizes]
        return frozenset((*roots, *(f"{size} ** -0.5" for size in sizes)))

    def number(self, node: ast.expr) -> bool:
        """Whether an expression is a Python number and no tensor."""
        value = self.of_self(node)
        if value is not None:
            return self.number(value)
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int | float)
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Pow):
                return isinstance(node.right, ast.Constant | ast.UnaryOp) and self._size(node.left)
            return all(self.number(side) for side in (node.left, node.right))
        if isinstance(node, ast.Call):
            return self.name(node.func) in _ROOTS
        return isinstance(self.module.value(node).value, int | float)

    def _size(self, node: ast.expr) -> bool:
        text = ast.unparse(node)
        return self.number(node) or text.endswith((".size(-1)", ".shape[-1]", "_dim", "_size"))


def product(module: PyModule, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The factors of a matrix product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if not isinstance(node, ast.Call) or len(node.args) != 2 or node.keywords:
        return None
    return (node.args[0], node.args[1]) if module.qualified(node.func) in _PRODUCTS else None


def softmax(parts: Parts, node: ast.expr) -> ast.expr | None:
    """What a softmax over the last dimension is taken of; casts around it are passed."""
    node = _uncast(parts, node)
    if not isinstance(node, ast.Call):
        return None
    inside, given = _softmax(parts, node)
    if inside is None or not given or ast.unparse(given[0]) != "-1":
        return None
    return _uncast(parts, inside)


def _softmax(parts: Parts, node: ast.Call) -> tuple[ast.expr | None, list[ast.expr]]:
    """(what it is taken of, its dimension)"""
    func = node.func
    dims = [k.value for k in node.keywords if k.arg == "dim"]
    if parts.name(func) in _SOFTMAX and node.args:
        return node.args[0], dims or node.args[1:2]
    layer = func if isinstance(func, ast.Call) else parts.of_self(func)
    if isinstance(layer, ast.Call) and parts.name(layer.func) == "torch.nn.Softmax":
        dims = [k.value for k in layer.keywords if k.arg == "dim"] or layer.args[:1]
        return (node.args[0] if node.args else None), dims
    if isinstance(func, ast.Attribute) and func.attr == "softmax" and not parts.name(func):
        return func.value, dims or node.args[:1]
    return None, []


def _uncast(parts: Parts, node: ast.expr) -> ast.expr:
    """An expression without a change of its number format."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in _CASTS or parts.name(node.func):
            break
        if (
            node.func.attr == "to"
            and "dtype" not in ast.unparse(node)
            and "torch." not in (ast.unparse(node))
        ):
            break
        node = node.func.value
    return node


def dropout(parts: Parts, node: ast.expr) -> tuple[ast.expr, str] | None:
    """(what is dropped from, the probability in force)"""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    layer = parts.of_self(node.func)
    if isinstance(layer, ast.Call) and parts.name(layer.func) == "torch.nn.Dropout":
        return node.args[0], f"{ast.unparse(node.func)}.p if self.training else 0.0"
    if parts.name(node.func) != "torch.nn.functional.dropout":
        return None
    named = {k.arg: ast.unparse(k.value) for k in node.keywords}
    rest = [ast.unparse(arg) for arg in node.args[1:]]
    rate = named.get("p") or (rest[0] if rest else "0.5")
    when = named.get("training") or (rest[1] if len(rest) > 1 else "True")
    return node.args[0], rate if when == "True" else f"{rate} if {when} else 0.0"


def scale(parts: Parts, node: ast.expr) -> tuple[ast.expr, str] | Refused | None:
    """(what is scaled, the factor as text)"""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult | ast.Div):
        return None
    if not parts.number(node.right):
        return Refused("the scale is not seen to be a plain number")
    text = ast.unparse(node.right)
    if isinstance(node.op, ast.Mult):
        return node.left, text
    simple = isinstance(node.right, ast.Call | ast.Constant | ast.Attribute | ast.Name)
    return node.left, f"1.0 / {text if simple else f'({text})'}"


def fill(parts: Parts, node: ast.expr) -> tuple[ast.expr, str, str] | Refused | None:
    """(what is masked, the argument for the mask, its text)"""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return Refused("a mask that is added must have the number format of the queries")
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr != "masked_fill" or len(node.args) != 2:
        return None
    mask, value = node.args
    if ast.unparse(value) not in _MINUS_INFINITY:
        return Refused("masked scores are filled with something else than minus infinity")
    zero = _compared_with_zero(mask)
    if zero is not None and _triangle(parts, zero):
        return node.func.value, "is_causal", "True"
    if zero is not None:
        return node.func.value, "attn_mask", f"{ast.unparse(zero)} != 0"
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return node.func.value, "attn_mask", ast.unparse(mask.operand)
    text = ast.unparse(mask)
    simple = isinstance(mask, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return node.func.value, "attn_mask", f"~{text}" if simple else f"~({text})"


def _compared_with_zero(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.Compare) or [type(op) for op in node.ops] != [ast.Eq]:
        return None
    return node.left if ast.unparse(node.comparators[0]) == "0" else None


def _triangle(parts: Parts, node: ast.expr) -> bool:
    """`self.bias[:, :, :T, :T]` of a buffer that is a lower triangle of ones."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return False
    last = [ast.unparse(part) for part in node.slice.elts[-2:]]
    square = last[0] == last[1] and last[0].startswith(":") and last[0] != ":"
    owner = parts.module.enclosing_class(parts.function)
    name = node.value.attr if isinstance(node.value, ast.Attribute) else ""
    if not square or owner is None or ast.unparse(node.value) != f"self.{name}":
        return False
    for part in ast.walk(owner):
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "self.register_buffer":
            key = part.args[0] if part.args else None
            if isinstance(key, ast.Constant) and key.value == name and len(part.args) > 1:
                return _lower_ones(parts, part.args[1])
    return False


def _lower_ones(parts: Parts, node: ast.expr) -> bool:
    while isinstance(node, ast.Subscript):  # [None, None]
        node = node.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if parts.name(node.func) == "torch.tril":
            made = node.args[0] if len(node.args) == 1 and not node.keywords else None
            return isinstance(made, ast.Call) and parts.name(made.func) == "torch.ones"
        node = node.func.value
    return False
