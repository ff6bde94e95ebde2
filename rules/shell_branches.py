"""What variables hold after a condition, when either branch may have run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pitstop.rules.shell_values import (
    Binding,
    Field,
    Fragment,
    bounded,
    common_prefix,
    conditional,
    known,
    same,
    soft,
    text_of,
)

_FLAG = re.compile(r"(?:^|\s)(?:-{1,2}[A-Za-z]|\+{0,2}[A-Za-z_][\w.]*=)")
_MAX_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Branch:
    """Variables at the end of one way through, and the condition under which it is taken.

    `empty` names a variable that the condition found to be empty.
    """

    condition: str
    variables: Mapping[str, Binding]
    empty: str | None = None


def merge(before: Mapping[str, Binding], branches: Sequence[Branch]) -> dict[str, Binding]:
    """Variables after branches of which at most one runs; a missing else is a branch too."""
    out = dict(before)
    changed = {
        name
        for branch in branches
        for name, binding in branch.variables.items()
        if before.get(name) is not binding
    }
    for name in sorted(changed):
        out[name] = _merged(name, before.get(name), branches)
    return out


def _merged(name: str, before: Binding | None, branches: Sequence[Branch]) -> Binding:
    ways = [(b.condition, b.variables.get(name)) for b in branches]
    idiom = next((b for b in branches if b.empty == name), None)
    if idiom is not None and (found := _defaulted(before, idiom.variables.get(name))):
        return found
    exported = any(b is not None and b.exported for _, b in ways)
    hard = [(c, b) for c, b in ways if b is not None and not _outside(b)]
    if not hard:
        return next(b for _, b in ways if b is not None)
    first = hard[0][1]
    missing = any(b is None for _, b in ways)
    if not missing and all(same(b, first) for _, b in hard):
        return replace(first, exported=exported)
    if any(b.array for _, b in hard):
        base = before if before is not None and not _outside(before) else None
        return Binding(_arrays(base, ways, hard), array=True, exported=exported)
    return replace(_scalar(name, before, hard, missing=missing), exported=exported)


def _outside(binding: Binding) -> bool:
    """True for a value that somebody gives from outside; a value of the script wins over it."""
    return not binding.array and soft(binding.value)


def _defaulted(before: Binding | None, given: Binding | None) -> Binding | None:
    """`if [ -z "$X" ]; then X=3; fi` is a way to write a default."""
    if given is None:
        return None
    if before is None or _outside(before) or before.value == ():
        return given
    if known(before.value) and text_of(before.value):
        return before
    return None


def _arrays(
    base: Binding | None,
    ways: Sequence[tuple[str, Binding | None]],
    hard: Sequence[tuple[str, Binding]],
) -> tuple[Field, ...]:
    """All elements, those of one branch only with its condition."""
    kept = base.fields if base is not None else ()
    if all(common_prefix(kept, b.fields) for _, b in hard) and not _unset_somewhere(base, ways):
        tails = [conditional(f, c) for c, b in hard for f in b.fields[len(kept) :]]
        return (*kept, *tails)
    return tuple(conditional(f, c) for c, b in hard for f in b.fields)


def _unset_somewhere(base: Binding | None, ways: Sequence[tuple[str, Binding | None]]) -> bool:
    return base is not None and any(b is None for _, b in ways)


def _scalar(
    name: str, before: Binding | None, hard: Sequence[tuple[str, Binding]], *, missing: bool
) -> Binding:
    """A string: flags that only some branches have keep their condition; a plain value that
    differs is unknown."""
    texts = [text_of(b.value) for _, b in hard]
    condition, binding = hard[-1]
    if missing and before is None and all(same(b, binding) for _, b in hard):
        return Binding((conditional(binding.value, hard[0][0]),))
    if not missing and len(set(texts)) == 1 and all(known(b.value) for _, b in hard):
        return Binding((tuple(replace(f, exact=False) for f in binding.value),))
    if any(_FLAG.search(text) for text in texts):
        return Binding((bounded(_alternatives(before, hard)),))
    if not binding.value:
        condition, binding = hard[0]
    if not binding.value:
        return binding
    shown = " or ".join(dict.fromkeys(_short(t) for t in texts)) + (" or unset" * missing)
    why = f"{name} is {shown}, depending on {condition}"
    return Binding((tuple(replace(f, why=f.why or why) for f in binding.value),))


def _alternatives(before: Binding | None, hard: Sequence[tuple[str, Binding]]) -> Field:
    """What all branches begin with, then what each adds; or else each branch's value."""
    kept = before.value if before is not None else ()
    appended = all(common_prefix(kept, b.value) for _, b in hard)
    out: list[Fragment] = list(kept) if appended else []
    for condition, binding in hard:
        tail = binding.value[len(kept) :] if appended else binding.value
        if tail:
            out += _separator(tail) if out else ()
            out += conditional(tail, condition)
    return tuple(out)


def _separator(value: Field) -> Field:
    """A made-up blank between alternatives, so that their words do not run together."""
    first = value[0]
    return (Fragment(" ", first.source, first.start, first.start, exact=False),)


def _short(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "...")
