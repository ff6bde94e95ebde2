"""Pages of the forge as files, for when it is gone."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path

VIEWS = {"": "", "files": "/files", "checks": "/checks"}


def pages_of(pull: str, name: str) -> dict[str, str]:
    """The views of a pull request whose page is at the path `pull`: path to file name."""
    return {
        f"{pull}{path}": f"{name}-{view}.html" if view else f"{name}.html"
        for view, path in VIEWS.items()
    }


def store(url: str, pages: Mapping[str, str], folder: Path) -> None:
    """Write the pages at these paths, with the links between them leading to the files."""
    for path, name in pages.items():
        text = local_links(fetch(url + path), url, pages)
        (folder / name).write_text(text, encoding="utf-8")


def fetch(url: str) -> str:
    """A page of the forge."""
    request = urllib.request.Request(url, headers={"Accept": "text/html", "User-Agent": "demo"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def local_links(page: str, url: str, pages: Mapping[str, str]) -> str:
    """The page with its links to pages that are stored leading to their files."""

    def stored(match: re.Match[str]) -> str:
        name = pages.get(match[1])
        return f'href="{name}{match[2] or ""}"' if name else match[0]

    return re.sub(rf'href="(?:{re.escape(url)})?(/[^"#]*)(#[\w-]+)?"', stored, page)
