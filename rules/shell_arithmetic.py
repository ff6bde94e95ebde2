"""Integer arithmetic as in `$(( ))`, on numbers and variables whose value is a number."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

MAX_TOKENS = 200
MAX_DEPTH = 12
_LIMIT = 2**63
_TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|\*\*|<<|>>|[()+\-*/%])", re.ASCII)

_Binary = Callable[[int, int], int | None]


def _divide(a: int, b: int) -> int | None:
    """Division that rounds towards zero, as in C."""
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _modulo(a: int, b: int) -> int | None:
    quotient = _divide(a, b)
    return None if quotient is None else a - quotient * b


def _power(a: int, b: int) -> int | None:
    return a**b if 0 <= b <= 64 and abs(a) <= _LIMIT else None


def _shift(a: int, b: int) -> int | None:
    return a << b if 0 <= b < 64 else None


_LEVELS: tuple[dict[str, _Binary], ...] = (
    {"<<": _shift, ">>": lambda a, b: a >> b if 0 <= b < 64 else None},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _divide, "%": _modulo},
)


def evaluate(expression: str, variable: Callable[[str], int | None]) -> int | None:
    """The value, or None for anything else than + - * / % ** << >> ( ) on known integers."""
    tokens: list[str] = []
    at = 0
    text = expression.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or len(tokens) >= MAX_TOKENS:
            return None
        tokens.append(found[1])
        at = found.end()
    parser = _Parser(tokens, variable)
    value = parser.level(0)
    if value is None or parser.at != len(tokens) or abs(value) >= _LIMIT:
        return None
    return value


class _Parser:
    """Precedence climbing; signs and parentheses nest at most MAX_DEPTH deep."""

    def __init__(self, tokens: list[str], variable: Callable[[str], int | None]) -> None:
        self.tokens = tokens
        self.variable = variable
        self.at = 0
        self.depth = 0

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def level(self, index: int) -> int | None:
        if index == len(_LEVELS):
            return self._power()
        left = self.level(index + 1)
        while left is not None and (step := _LEVELS[index].get(self._peek())):
            self.at += 1
            right = self.level(index + 1)
            left = None if right is None else step(left, right)
            if left is not None and abs(left) >= _LIMIT:
                return None
        return left

    def _power(self) -> int | None:
        base = self._unary()
        if base is None or self._peek() != "**":
            return base
        self.at += 1
        exponent = self._power()
        return None if exponent is None else _power(base, exponent)

    def _unary(self) -> int | None:
        word = self._peek()
        self.at += 1
        if word in ("-", "+", "("):
            return self._nested(word)
        if word[:1].isdigit():
            return int(word, 16 if word[:2] in ("0x", "0X") else 8 if _octal(word) else 10)
        return self.variable(word) if word[:1].isalpha() or word[:1] == "_" else None

    def _nested(self, opener: str) -> int | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            return None
        value = self.level(0) if opener == "(" else self._unary()
        self.depth -= 1
        if opener == "(":
            closed = self._peek() == ")"
            self.at += 1
            return value if closed else None
        return -value if value is not None and opener == "-" else value


def _octal(token: str) -> bool:
    return len(token) > 1 and token.startswith("0") and all(c in "01234567" for c in token)
