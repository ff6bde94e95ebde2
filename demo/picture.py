"""Takes the pictures of the README: pages of the demos through a headless Chromium.

`make screenshots` runs both demos first. A page may be rearranged with styles, so that what
matters stands first, but nothing in it is changed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
MAX_BYTES = 300_000

EVERYWHERE = """
.top, .tabs { display: none; }
main { padding: 20px 24px; max-width: none; }
.text table:not(.diff) td, .text table:not(.diff) th { padding: 4px 12px; }
.thread { max-width: none; }
"""
SUMMARY_FIRST = """
.timeline > .box:first-child, .commits { display: none; }
.timeline { display: flex; flex-direction: column; margin: 0; padding: 0; border: 0; }
.timeline > .box { order: -1; }
section > .box:not(:has(.suggestion)), .timeline > .box:has(.checks) { display: none; }
section > .box:has(.suggestion) ~ .box { display: none; }
"""
COMMAND_AND_ANSWER = """
.timeline { margin: 0; padding: 0; border: 0; }
.timeline > * { display: none; }
.timeline > .box:has(.badge + .badge), .timeline > .box:nth-last-child(-n+3) { display: block; }
.timeline > .box:has(.checks) { display: none; }
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """A page of a demo as an image. Sizes are pixels; `opened` shows what is folded."""

    name: str
    page: str
    width: int
    height: int
    style: str = ""
    opened: bool = False


PICTURES = (
    Picture("review.png", "pull-request.html", 1120, 1500, SUMMARY_FIRST),
    Picture("answer.png", "optimize/pull-request.html", 1120, 860, COMMAND_AND_ANSWER),
    Picture("follow-up.png", "optimize/follow-up.html", 1120, 1400, opened=True),
)


def main() -> int:
    """Write the pictures. Returns 1 when one cannot be taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=Path, default=ROOT / ".demo", help="what the demos left")
    parser.add_argument("--target", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("no Chromium is here; install it (Debian and Ubuntu: apt-get install chromium)")
        return 1
    missing = [one.page for one in PICTURES if not (options.pages / one.page).is_file()]
    if missing:
        print(f"{options.pages} holds no {', '.join(missing)}; run the demos first")
        return 1
    options.target.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        target = options.target.resolve() / picture.name
        take(browser, picture, options.pages / picture.page, target)
        size = target.stat().st_size
        print(f"{target}: {size / 1000:.0f} kB")
        if size > MAX_BYTES:
            print(f"{picture.name} is larger than {MAX_BYTES / 1000:.0f} kB; make it smaller")
            return 1
    return 0


def take(browser: str, picture: Picture, page: Path, target: Path) -> None:
    """One picture. Raises CalledProcessError when the browser fails."""
    text = page.read_text(encoding="utf-8")
    text = text.replace("</style>", f"{EVERYWHERE}{picture.style}</style>", 1)
    if picture.opened:
        text = text.replace("<details>", "<details open>")
    with tempfile.TemporaryDirectory() as folder:
        arranged = Path(folder) / "page.html"
        arranged.write_text(text, encoding="utf-8")
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--force-device-scale-factor=1",
                "--font-render-hinting=none",
                "--disable-lcd-text",
                f"--user-data-dir={folder}/profile",
                f"--window-size={picture.width},{picture.height}",
                f"--screenshot={target}",
                arranged.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


if __name__ == "__main__":
    sys.exit(main())
