"""One rewrite of every Python file of a folder, by a recipe or by a libcst codemod: for `make
bench`, which measures this process. Prints the files read and the files changed; writes none."""

import argparse
from pathlib import Path

import libcst as cst
from libcst.codemod import CodemodContext, VisitorBasedCodemodCommand
from libcst.metadata import QualifiedNameProvider

from pitstop.rules.tree import SourceFile
from pitstop.transforms.patch import Changed
from pitstop.transforms.recipe import recipes


class Fused(VisitorBasedCodemodCommand):
    """`fused=True` for AdamW, as libcst's documentation writes such a command."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:  # noqa: N802
        names = self.get_metadata(QualifiedNameProvider, original_node, set())
        if not any(one.name == "torch.optim.AdamW" for one in names):
            return updated_node
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        fused = cst.Arg(cst.Name("True"), cst.Name("fused"), equal)
        return updated_node.with_changes(args=[*updated_node.args, fused])


def by_recipe(path: str, text: str) -> bool:
    """Found with ast, written by libcst where there is something to write, proved after it."""
    return isinstance(recipes()["fused-optimizer"].apply(SourceFile(path, text)), Changed)


def by_codemod(path: str, text: str) -> bool:
    """Parsed, resolved and written by libcst."""
    module = Fused(CodemodContext(filename=path)).transform_module(cst.parse_module(text))
    return module.code != text


def main() -> int:
    """Rewrite in memory, and count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("by", choices=("recipe", "codemod"))
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    rewrite = by_recipe if chosen.by == "recipe" else by_codemod
    done = [rewrite(str(file), file.read_text()) for file in chosen.folder.rglob("*.py")]
    print(len(done), sum(done))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
