"""`${X%.*}`, `${X//a/b}`, `${X^^}`: what expansion does to a known text."""

from __future__ import annotations

import fnmatch
import re


def transformed(text: str, operator: str, pattern: str) -> str | None:
    """What an operator makes of a value, None for what is not worked out here."""
    if len(text) > 2_000 or len(pattern) > 200:
        return None
    if operator in ("^^", ",,") and not pattern:
        return text.upper() if operator == "^^" else text.lower()
    if operator in ("#", "##", "%", "%%"):
        return _trimmed(text, operator, pattern)
    if operator in ("/", "//"):
        old, _, new = pattern.partition("/")
        if not old or re.search(r"[*?\[\\]", old):
            return None
        return text.replace(old, new, 1 if operator == "/" else -1)
    if operator == ":" and (found := re.fullmatch(r"\s*(\d{1,5})(?::(\d{1,5}))?", pattern)):
        start = int(found[1])
        return text[start : start + int(found[2])] if found[2] else text[start:]
    return None


def _trimmed(text: str, operator: str, pattern: str) -> str | None:
    if pattern.count("*") > 2 or len(text) > 400:
        return None
    matches = re.compile(fnmatch.translate(pattern)).match
    lengths = range(len(text) + 1)
    for length in lengths if len(operator) == 1 else reversed(lengths):
        piece = text[:length] if operator[0] == "#" else text[len(text) - length :]
        if matches(piece):
            return text[length:] if operator[0] == "#" else text[: len(text) - length]
    return text
