"""What a YAML scalar means: the words of YAML 1.1 as PyYAML reads them, with the numbers that
its consumers make of the strings it leaves (`1e-4`)."""

from __future__ import annotations

import re
from typing import TypeVar

from pitstop.rules.finding import Scalar, Unknown, Value

_TRUE = frozenset({"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_INT = re.compile(
    r"""(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+
    |[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$""",
    re.VERBOSE,
)
_FLOAT = re.compile(
    r"""(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?
    |[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)
# A number to YAML 1.2 and to float(), a string to PyYAML: 1e-4, 1E5, 1.5e3, -2e-6
_CAST = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
_STARTS = frozenset("0123456789+-.yYnNtTfFoO~")
_MAX_DIGITS = 4_000
_Number = TypeVar("_Number", int, float)
_CORE = "tag:yaml.org,2002:"


def plain_value(text: str) -> Value:
    """The value of an unquoted scalar."""
    if text in _NULL:
        return None
    if text[0] not in _STARTS:
        return text
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if len(text) > _MAX_DIGITS:
        return text
    try:
        if _INT.match(text):
            return _integer(text)
        if _FLOAT.match(text):
            return _real(text)
    except ValueError:  # `0x_`, which PyYAML cannot load either
        return text
    return float(text) if _CAST.match(text) else text


def tagged_value(tag: str, text: str) -> Value:
    """The value of a scalar with an explicit tag; a type that would have to be constructed is
    Unknown."""
    name = tag.removeprefix(_CORE)
    try:
        if name == "str":
            return text
        if name == "int":
            return _integer(text)
        if name == "float":
            return _real(text)
        if name == "null":
            return None
        if name == "bool" and text in _TRUE | _FALSE:
            return text in _TRUE
    except (ValueError, IndexError):
        return Unknown(f"{text!r} is no {name}")
    return Unknown(f"the tag {tag}")


def _integer(text: str) -> Scalar:
    digits = text.replace("_", "")
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-")
    if digits == "0":
        return 0
    if digits.startswith("0b"):
        return sign * int(digits[2:], 2)
    if digits.startswith("0x"):
        return sign * int(digits[2:], 16)
    if ":" in digits:
        return sign * _sexagesimal(digits, int)
    return sign * int(digits, 8 if digits[0] == "0" else 10)


def _real(text: str) -> Scalar:
    digits = text.replace("_", "").lower()
    sign = -1.0 if digits[0] == "-" else 1.0
    digits = digits.lstrip("+-")
    if digits == ".inf":
        return sign * float("inf")
    if digits == ".nan":
        return float("nan")
    return sign * (_sexagesimal(digits, float) if ":" in digits else float(digits))


def _sexagesimal(digits: str, number: type[_Number]) -> _Number:
    """Base 60, as YAML 1.1 reads `1:30`: 90."""
    total = number(0)
    for part in digits.split(":"):
        total = total * 60 + number(part)
    return total
