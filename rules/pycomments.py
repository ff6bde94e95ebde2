"""The comments of a Python file."""

from __future__ import annotations

import re

from pitstop.rules.tree import SourceFile

# No possessive quantifiers: before Python 3.11.5 they give up matches (python/cpython#106052).
_LEXEMES = re.compile(
    r'''"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*(?:"""|\Z)'''
    r"""|'''[^'\\]*(?:(?:\\[\s\S]|'(?!''))[^'\\]*)*(?:'''|\Z)"""
    r'''|"[^"\\\n\r]*(?:\\(?:\r\n|[\s\S])[^"\\\n\r]*)*"'''
    r"""|'[^'\\\n\r]*(?:\\(?:\r\n|[\s\S])[^'\\\n\r]*)*'"""
    r"""|#[^\n\r]*"""
)


def read_comments(file: SourceFile) -> dict[int, str]:
    """The comment of each line that has one: line from 1 to its text with the `#`.

    For a file that parses this is what `tokenize` says, at a hundredth of its cost: outside
    string literals a `#` can only begin a comment.
    """
    if "#" not in file.text:
        return {}
    return {
        file.position(match.start())[0]: match.group()
        for match in _LEXEMES.finditer(file.text)
        if match.group().startswith("#")
    }
