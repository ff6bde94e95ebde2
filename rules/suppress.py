"""Comments that answer a finding: `# pitstop: ignore[HF-H01] the loader is a stub`.

The words in brackets are ids, names or id prefixes of rules. The comment stands on the
finding's line, or alone above it (above the whole statement when that spans several lines);
`ignore-file` answers for the whole file. A reason is required: without one the comment has no
effect and is reported, and so is one that answers nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pitstop.rules.finding import Finding, Location
from pitstop.rules.tree import SourceFile

_COMMENT = re.compile(
    r"(?:^|(?<=\s))(?P<mark>#|//|/\*)\s*pitstop:\s*(?P<verb>ignore(?:-file)?)\b"
    r"\s*(?:\[(?P<words>[^\]\n]*)\])?(?P<reason>[^\n]*)"
)
_SLASHES = (".json", ".jsonc", ".json5")


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment. `words` name rules; `alone` when nothing else stands on its line; `fault`
    says why it has no effect."""

    location: Location
    words: tuple[str, ...]
    reason: str
    whole_file: bool
    alone: bool
    fault: str | None = None


def read_suppressions(
    file: SourceFile, comments: Mapping[int, str] | None = None
) -> tuple[Suppression, ...]:
    """The suppression comments of a file. `comments` (line to text), where a parser knows them,
    keep strings that only look like comments apart."""
    if "pitstop:" not in file.text:
        return ()
    found: list[Suppression] = []
    for number in range(1, len(file.line_starts) + 1):
        if comments is not None and number not in comments:
            continue
        text = file.line_text(number)
        match = _COMMENT.search(text)
        if match and (match["mark"] == "#") != file.path.lower().endswith(_SLASHES):
            found.append(_suppression(file, number, text, match))
    return tuple(found)


def _suppression(file: SourceFile, number: int, text: str, match: re.Match[str]) -> Suppression:
    start = file.offset(number, match.start() + 1)
    words = tuple(word.strip() for word in (match["words"] or "").split(",") if word.strip())
    reason = match["reason"].removesuffix("*/").strip().lstrip(":-–— ").strip()
    fault = None
    if not words:
        fault = "has no effect: name the rules in brackets, ignore[HF-H01]"
    elif not reason:
        fault = "has no effect: say why after the brackets"
    return Suppression(
        location=file.location(start, start + len(match[0].rstrip())),
        words=words,
        reason=reason,
        whole_file=match["verb"] == "ignore-file",
        alone=not text[: match.start()].strip(),
        fault=fault,
    )


def first_line(file: SourceFile, line: int, tree: ast.Module | None = None) -> int:
    """The line on which the statement or continued command that holds `line` begins."""
    if tree is not None:
        return _statement_line(tree, line)
    while line > 1 and file.line_text(line - 1).endswith("\\"):
        line -= 1
    return line


def _statement_line(tree: ast.Module, line: int) -> int:
    """The start of the innermost statement around a line; a compound one only by its head."""
    best = line
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or node.lineno > line:
            continue
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
        if line <= last:
            best = min(best, node.lineno)
    return best


def answers(suppression: Suppression, finding: Finding, start: int) -> bool:
    """Whether a comment stands where it speaks about a finding whose statement begins at line
    `start`; the rule is not looked at."""
    if suppression.fault or suppression.location.path != finding.primary.path:
        return False
    if suppression.whole_file:
        return True
    line = suppression.location.line
    if line == finding.primary.line:
        return True
    return suppression.alone and line in (start - 1, finding.primary.line - 1)


def sort_out(
    findings: Iterable[Finding],
    suppressions: Iterable[Suppression],
    start_of: Callable[[Finding], int],
    names: Callable[[str, Finding], bool],
) -> tuple[list[Finding], list[tuple[Finding, str]], list[Suppression]]:
    """Findings that stand, those answered with the reason, and the comments that answered none.

    `names` says whether a word in brackets means a finding's rule.
    """
    known = list(suppressions)
    used: set[Location] = set()
    standing: list[Finding] = []
    answered: list[tuple[Finding, str]] = []
    for finding in findings:
        start = start_of(finding)
        by = [
            s
            for s in known
            if answers(s, finding, start) and any(names(word, finding) for word in s.words)
        ]
        if by:
            used.update(s.location for s in by)
            answered.append((finding, by[0].reason))
        else:
            standing.append(finding)
    return standing, answered, [s for s in known if s.location not in used]
