"""Takes the picture of a review for the README: the demo's page through a headless chromium.

python demo/run_demo.py && python demo/picture.py docs/images/review.png
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / ".demo" / "pull-request.html"
WIDTH, HEIGHT = 1280, 1680

# The summary comes first, then the first comment that holds a suggestion.
ARRANGEMENT = """
.top, .tabs, .timeline > .box:first-child, .commits { display: none; }
.timeline { display: flex; flex-direction: column; margin: 0; padding: 0; border: 0; }
.timeline > .box { order: -1; }
section > .box:not(:has(.suggestion)), .timeline > .box:has(.checks) { display: none; }
section > .box:has(.suggestion) ~ .box { display: none; }
main { padding: 20px 24px; max-width: none; }
.text table:not(.diff) td, .text table:not(.diff) th { padding: 4px 12px; }
.thread { max-width: none; }
"""


def main() -> None:
    """Write the picture to the path given."""
    target = Path(sys.argv[1]).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    page = PAGE.read_text(encoding="utf-8").replace("</style>", ARRANGEMENT + "</style>")
    with tempfile.TemporaryDirectory() as folder:
        arranged = Path(folder) / "page.html"
        arranged.write_text(page, encoding="utf-8")
        subprocess.run(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--force-device-scale-factor=1",
                f"--user-data-dir={folder}/profile",
                f"--window-size={WIDTH},{HEIGHT}",
                f"--screenshot={target}",
                arranged.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


if __name__ == "__main__":
    main()
