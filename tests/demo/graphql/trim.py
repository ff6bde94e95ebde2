"""Trim GitHub's published GraphQL schema to the types that the forge serves.

npm install @octokit/graphql-schema@15.26.1
python tests/demo/graphql/trim.py node_modules/@octokit/graphql-schema/schema.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from demo import graphql_mutations  # noqa: E402
from demo.graphql import TYPES  # noqa: E402


def written(type_: dict[str, Any]) -> str:
    """A type as the schema language has it: [Name!]!"""
    if type_["kind"] == "NON_NULL":
        return written(type_["ofType"]) + "!"
    if type_["kind"] == "LIST":
        return f"[{written(type_['ofType'])}]"
    return str(type_["name"])


def main() -> None:
    schema = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["__schema"]
    inputs = {name[:1].upper() + name[1:] + "Input" for name in graphql_mutations.INPUTS}
    kept: dict[str, Any] = {}
    for type_ in schema["types"]:
        if type_["name"] in TYPES:
            kept[type_["name"]] = {
                field["name"]: {
                    "type": written(field["type"]),
                    "arguments": {a["name"]: written(a["type"]) for a in field["args"]},
                }
                for field in type_["fields"]
                if field["name"] in TYPES[type_["name"]].fields
            }
        elif type_["name"] in inputs:
            fields = type_["inputFields"]
            kept[type_["name"]] = {field["name"]: written(field["type"]) for field in fields}
    text = json.dumps(kept, indent=1, sort_keys=True)
    (HERE / "types.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
