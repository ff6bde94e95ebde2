"""What an edit of a flag means for the words of a command: the claim that its proof checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pitstop.transforms.shell_proof import Words, is_flag


def spellings(name: str) -> tuple[str, ...]:
    """argparse parsers of training programs take `--a_b` and `--a-b` alike."""
    dashes = name[: len(name) - len(name.lstrip("-"))]
    body = name[len(dashes) :]
    return tuple({f"{dashes}{body.replace(a, b)}": None for a, b in ("__", "_-", "-_")})


def names(text: str, name: str) -> bool:
    """True when a word is the flag, alone or with `=value`."""
    return any(text == one or text.startswith(f"{one}=") for one in spellings(name))


@dataclass(frozen=True, slots=True)
class FlagChange:
    """The flag's name, its wanted value, and what is done to it."""

    name: str
    value: str | None
    kind: Literal["added", "changed", "removed", "bare"]

    def __call__(self, before: Words, after: Words) -> bool:
        """True when only this flag differs, and as intended."""
        return self.without(before) == self.without(after) and self.state(after) == self.wanted()

    def wanted(self) -> tuple[str | None, ...]:
        """The deciding value: () for an absent flag, (None,) for a bare one."""
        return () if self.kind in ("removed", "bare") else (self.value,)

    def state(self, words: Words) -> tuple[str | None, ...]:
        """What a parser that lets the last occurrence win makes of the words."""
        found: tuple[str | None, ...] = ()
        for index, word in enumerate(words):
            if names(word, self.name):
                found = (self._value(words, index),)
        return found

    def _value(self, words: Words, index: int) -> str | None:
        if "=" in words[index]:
            return words[index].partition("=")[2]
        following = words[index + 1] if index + 1 < len(words) else None
        if self.kind == "bare" or (self.value is None and self.kind == "added"):
            return None
        return None if following is None or is_flag(following) else following

    def without(self, words: Words) -> Words:
        """The words without the flag's deciding occurrence (all of them when it is removed)."""
        hits = [i for i, word in enumerate(words) if names(word, self.name)]
        if self.kind in ("added", "changed"):
            hits = hits[-1:]
        dropped: set[int] = set()
        for index in hits:
            dropped.add(index)
            valued = "=" not in words[index] and self._value(words, index) is not None
            dropped |= {index + 1} if valued else set()
        return tuple(word for i, word in enumerate(words) if i not in dropped)


@dataclass(frozen=True, slots=True)
class FlagRename:
    """One flag in the place of another, with its wanted value (None: bare)."""

    name: str
    new: str
    value: str | None

    def __call__(self, before: Words, after: Words) -> bool:
        """True when only this flag differs, and as intended."""
        return self._spelled(before) == after

    def _spelled(self, words: Words) -> Words:
        out: list[str] = []
        for word in words:
            last = out[-1] if out else ""
            if names(word, self.name):
                out.append(self.new if "=" not in word else f"{self.new}={self.value}")
            elif last == self.new and self.value is not None:
                out.append(self.value)
            else:
                out.append(word)
        return tuple(out)
