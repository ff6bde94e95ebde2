"""Trim the published webhook schemas to the events the forge sends.

npm install @octokit/webhooks-schemas@7.6.1
python tests/demo/webhooks/trim.py node_modules/@octokit/webhooks-schemas/schema.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

EVENTS = (
    "issue_comment$created",
    "issue_comment$edited",
    "pull_request$closed",
    "pull_request$opened",
    "pull_request$reopened",
    "pull_request$synchronize",
)
PREFIX = "#/definitions/"


def bare(node: Any) -> Any:
    """A copy without prose."""
    if isinstance(node, list):
        return [bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    prose = {"description", "title", "tsAdditionalProperties"}
    return {
        key: bare(value)
        for key, value in node.items()
        if not (key in prose and not isinstance(value, dict))
    }


def main() -> None:
    definitions = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["definitions"]
    kept, todo = {}, list(EVENTS)
    while todo:
        name = todo.pop()
        if name in kept:
            continue
        kept[name] = bare(definitions[name])
        text = json.dumps(kept[name])
        parts = text.split(f'"$ref": "{PREFIX}')[1:]
        todo += [part.split('"')[0] for part in parts]
    schema = {"definitions": dict(sorted(kept.items()))}
    target = Path(__file__).parent / "schema.json"
    target.write_text(json.dumps(schema, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
