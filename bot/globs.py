"""Path patterns as people know them from .gitignore.

`*` and `?` stay inside one folder, `**` crosses folders. A pattern without a slash matches in
every folder; one that names a folder (`legacy/` or `legacy`) matches everything below it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a relative POSIX path is covered by any of the patterns."""
    return any(_compiled(pattern).match(path) for pattern in patterns)


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    anchored = "/" in pattern.removeprefix("./").rstrip("/")
    words = pattern.strip("/").removeprefix("./")
    start = "" if anchored else "(?:.*/)?"
    return re.compile(f"{start}{_translate(words)}(?:/.*)?\\Z", re.DOTALL)


_TOKENS = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^]/]+\]|.", re.DOTALL)


def _translate(words: str) -> str:
    out = []
    for token in _TOKENS.findall(words):
        if token in _MEANING:
            out.append(_MEANING[token])
        elif len(token) > 1:
            out.append("[^" + token[2:] if token.startswith("[!") else token)
        else:
            out.append(re.escape(token))
    return "".join(out)


_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
