"""From a knob's canonical value to what stands in a file: the framework's word, in the form of
the surface and in the style of what stood there before."""

from __future__ import annotations

from pitstop.rules.finding import Scalar, Setting, Surface
from pitstop.rules.frameworks import Framework, accepted, frameworks
from pitstop.rules.frameworks.spelling import ANY, Spelling, Unwritable, plain_name, surface_text
from pitstop.rules.versions import Versions
from pitstop.transforms.edit_python import Code, Literal


def row_of(setting: Setting) -> Spelling | None:
    """The row of the framework that gives the written name its meaning. An option of the
    program's own (`--workers`) has the row of the keyword that it feeds."""
    framework = frameworks().get(setting.framework)
    if framework is None:
        return None
    if setting.surface is Surface.STATEMENT:
        rows = framework.stated(setting.name)
    else:
        rows = framework.named(setting.name, setting.surface)
    if setting.surface in (Surface.FLAG, Surface.PY_DEFAULT):
        rows = (*rows, *framework.writers(setting.knob, Surface.KEYWORD))
    own = [row for row in rows if row.knob == setting.knob]
    return next((row for row in own if not row.extra), own[0] if own else None)


def writers(
    framework: Framework, knob: str, surface: Surface, versions: Versions
) -> list[Spelling]:
    """The rows that write a knob, the best first: names that every version allowed by the pins
    takes, before names of the newest release, which an open pin installs; those that warn last."""
    best = framework.spelling(knob, surface, versions)
    answers = [(row, accepted(row, versions)) for row in framework.writers(knob, surface)]
    usable = [(row, yes) for row, yes in answers if yes or (yes is None and row.until is None)]
    usable.sort(key=lambda pair: (pair[0] is not best, not pair[1], bool(pair[0].deprecated)))
    return [row for row, _ in usable]


def negated(setting: Setting, row: Spelling) -> bool:
    """True for the `--no_x` form of a boolean flag."""
    name = plain_name(setting.name)
    return setting.surface is Surface.FLAG and name == f"no_{row.name}"


def cased(row: Spelling, written: Scalar, raw: str) -> Scalar:
    """A word of the row's own in capitals where the old one stood in capitals (FULL_SHARD)."""
    own = isinstance(written, str) and row.values is not None and written in row.values
    return written.upper() if own and isinstance(written, str) and raw.isupper() else written


def flag_text(row: Spelling, value: Scalar, raw: str = "") -> str | Unwritable:
    """The word behind a flag; booleans in the letter case of the old one."""
    written = row.written(value)
    if isinstance(written, Unwritable):
        return written
    text = surface_text(cased(row, written, raw), Surface.FLAG)
    lower = raw in ("true", "false") or (not raw and row.flag_style == "value")
    return text.lower() if isinstance(written, bool) and lower else text


def env_text(row: Spelling, value: Scalar, raw: str = "") -> str | Unwritable:
    """The value of an environment variable; a switch is 1 or 0 unless words stood there."""
    written = row.written(value)
    if isinstance(written, Unwritable):
        return written
    if isinstance(written, bool):
        if raw.lower() in ("true", "false"):
            return str(written) if raw.istitle() else str(written).lower()
        return str(int(written))
    return surface_text(written, Surface.ENV)


def literal(row: Spelling, value: Scalar, raw: str = "") -> Literal | Unwritable:
    """The Python expression: a name such as torch.bfloat16 where a name stood before, text
    where text stood."""
    words = [w for w, meant in (row.values or {}).items() if _same(meant, value) and w != ANY]
    if row.type in ("bool", "int", "float") or not words:
        written = row.written(value)
        if isinstance(written, str) and written.startswith("torch."):
            return Code(written)
        return written
    text = raw.startswith(("'", '"'))
    word = next((w for w in words if ("." in w) != text), words[0])
    if text or "." not in word:
        return word
    head, _, last = raw.rpartition(".")
    if head:
        name = word.rpartition(".")[2]
        return Code(f"{head}.{name.upper() if last.isupper() else name}")
    return Code(word) if word.startswith("torch.") else Unwritable(f"{row.name}: {word} is a name")


def _same(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b
