"""HTML that cannot be wrong: text is escaped unless it was made here."""

from __future__ import annotations

from html import escape

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | None


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """An element. Children are escaped unless they are Html; None is nothing. An attribute is
    named as in HTML, with _ for - and without a last _ (class_)."""
    written = []
    for key, value in attributes.items():
        word = key.rstrip("_").replace("_", "-")
        if value is True:
            written.append(f" {word}")
        elif value is not None and value is not False:
            written.append(f' {word}="{escape(str(value))}"')
    start = f"<{name}{''.join(written)}>"
    return Html(start if name in VOID else f"{start}{joined(*children)}</{name}>")


def joined(*children: Child) -> Html:
    """Children one after the other."""
    return Html("".join(_safe(child) for child in children if child is not None))


def _safe(child: str | int) -> str:
    return child if isinstance(child, Html) else escape(str(child))
