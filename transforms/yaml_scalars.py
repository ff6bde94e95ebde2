"""How a value is written in YAML so that version 1.1 and 1.2 readers agree on it."""

from __future__ import annotations

import json
import math
import re

from pitstop.rules.finding import Scalar

_NOT_TEXT = re.compile(
    r"""(?ix) ~ | null | true | false | yes | no | on | off | y | n | = | <<
    | [-+]? \.? (?: inf | nan )
    | [-+]? [.0-9] [-+.0-9_a-f:xoTZ\s]*      # numbers, dates, base sixty; a little more than needed
    """
)
_PLAIN = re.compile(r"[^\W\d_]|[/.$<(_0-9]|[-:?](?=\S)")
_BREAKS_PLAIN = re.compile(r":(\s|$)|\s#|[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_BREAKS_FLOW = re.compile(r"[,\[\]{}]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def written(
    value: Scalar, old: str = "", *, quote: str = '"', flow: bool = False, key: bool = False
) -> str | None:
    """The text of a value. The letter case of an old boolean and the quotes of an old string
    are kept; `quote` is used for strings that need quotes. A `key` may be called `y`, which no
    reader in use takes for a boolean. None for what YAML cannot say."""
    if isinstance(value, bool):
        return _boolean(value, old.strip())
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if key and not old and value in ("y", "Y", "n", "N"):
        return value
    return _string(value, old.strip(), quote, flow)


def _boolean(value: bool, old: str) -> str:
    if old in ("True", "False"):
        return str(value)
    if old in ("TRUE", "FALSE"):
        return str(value).upper()
    return str(value).lower()


def _number(value: float) -> str | None:
    """PyYAML reads `1e-05` as text: a number needs a point before its exponent."""
    if not math.isfinite(value):
        return None
    mantissa, e, exponent = repr(value).partition("e")
    if not e:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"


def _string(value: str, old: str, quote: str, flow: bool) -> str:
    quoted = old[:1] if old[:1] in ("'", '"') else ""
    if not quoted and _plain(value, flow):
        return value
    if (quoted or quote) == "'" and not _CONTROL.search(value):
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value, ensure_ascii=False)


def _plain(value: str, flow: bool) -> bool:
    if not value or value != value.strip() or not _PLAIN.match(value):
        return False
    if _NOT_TEXT.fullmatch(value) or _BREAKS_PLAIN.search(value):
        return False
    return not (flow and (_BREAKS_FLOW.search(value) or ":" in value))
