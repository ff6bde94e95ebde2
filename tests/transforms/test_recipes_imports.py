"""Imports that recipes need: once, at the right place, and never where the name means something
else. no-sync needs `contextlib`, tf32 `torch`."""

import pytest

from tests.transforms.recipe_texts import changed, left_alone

STEP = """\
model = DDP(net)
for step, batch in enumerate(loader):
    loss = model(batch)
    loss.backward()
    if step % 4 == 3:
        optimizer.step()
"""


def head_after(head: str, body: str = STEP) -> str:
    """What stands above the training code after the change."""
    after = changed("no-sync", head + body)
    return after[: after.index(body.split("\n")[0])]


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        pytest.param(
            "import argparse\nimport os\n\nfrom torch.nn.parallel import"
            " DistributedDataParallel as DDP\nfrom project import loader, net, optimizer\n\n",
            "import argparse\nimport contextlib\nimport os\n\nfrom torch.nn.parallel import"
            " DistributedDataParallel as DDP\nfrom project import loader, net, optimizer\n\n",
            id="in the order of the alphabet",
        ),
        pytest.param(
            '"""Trains."""\nfrom __future__ import annotations\n'
            "from torch.nn.parallel import DistributedDataParallel as DDP\n",
            '"""Trains."""\nfrom __future__ import annotations\nimport contextlib\n'
            "from torch.nn.parallel import DistributedDataParallel as DDP\n",
            id="behind __future__",
        ),
        pytest.param(
            "from torch.nn.parallel import DistributedDataParallel as DDP\nimport contextlib\n",
            "from torch.nn.parallel import DistributedDataParallel as DDP\nimport contextlib\n",
            id="there already",
        ),
        pytest.param(
            "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            "if net:\n    import contextlib\n",
            "import contextlib\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
            "if net:\n    import contextlib\n",
            id="only under a condition",
        ),
        pytest.param(
            "from torch.nn.parallel import DistributedDataParallel as DDP\n\n"
            "def load():\n    import contextlib\n    return contextlib\n\n",
            "import contextlib\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n\n"
            "def load():\n    import contextlib\n    return contextlib\n\n",
            id="only in a function",
        ),
        pytest.param(
            "#!/usr/bin/env python\n# Copyright\n\nimport os  # first\n"
            "from torch.nn.parallel import DistributedDataParallel as DDP\n",
            "#!/usr/bin/env python\n# Copyright\n\nimport contextlib\nimport os  # first\n"
            "from torch.nn.parallel import DistributedDataParallel as DDP\n",
            id="below the comments at the top",
        ),
    ],
)
def test_a_missing_import_is_added_once(head: str, wanted: str) -> None:
    assert head_after(head) == wanted


DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"


def test_an_import_below_the_use_does_not_count() -> None:
    after = changed("no-sync", DDP + STEP + "import contextlib\n")
    assert after.startswith("import contextlib\n" + DDP)
    assert after.endswith("\nimport contextlib\n")


def test_an_alias_is_used() -> None:
    after = changed("no-sync", "import contextlib as ctx\n" + DDP + STEP)
    assert "with ctx.nullcontext() if step % 4 == 3 else model.no_sync():" in after
    assert "import contextlib\n" not in after


def test_a_name_that_is_imported_by_itself_is_used() -> None:
    after = changed("no-sync", "from contextlib import nullcontext\n" + DDP + STEP)
    assert "with nullcontext() if step % 4 == 3 else" in after
    assert "import contextlib\n" not in after


@pytest.mark.parametrize(
    "head",
    [
        "try:\n    import contextlib\nexcept ImportError:\n    contextlib = None\n",
        "contextlib = object()\n",
        "from project import contextlib\n",
        "def contextlib():\n    pass\n",
    ],
)
def test_a_name_that_means_something_else_is_not_taken(head: str) -> None:
    assert "contextlib" in left_alone("no-sync", DDP + head + STEP)


def test_statements_behind_the_imports_stay_behind_a_new_one() -> None:
    """tf32 puts a call behind the imports; the import of torch itself must stand above it."""
    text = "import project\n\nfor batch in project.loader:\n    project.loss(batch).backward()\n"
    after = changed("tf32", text)
    assert after.startswith(
        'import project\nimport torch\n\ntorch.set_float32_matmul_precision("high")\n\nfor'
    )


def test_aliases_of_torch_are_respected() -> None:
    text = (
        "import torch as th\nimport torch.nn.functional as nnf\n\nmodel = th.nn.Linear(2, 2)\n"
        "for x in range(3):\n    loss = nnf.mse_loss(model(x), x)\n    loss.backward()\n"
    )
    after = changed("autocast-bf16", text)
    assert '    with th.autocast("cuda", dtype=th.bfloat16):\n' in after
    assert "import torch\n" not in after


def test_the_import_does_not_come_between_a_statement_and_its_comment() -> None:
    after = changed("no-sync", "import zlib\n# parallel\n" + DDP + STEP)
    assert after.startswith("import contextlib\nimport zlib\n# parallel\n" + DDP)


def test_a_file_with_one_import_gets_no_second_one() -> None:
    text = "import torch\nfor batch in loader:\n    model(batch).backward()\n"
    assert changed("tf32", text).count("import torch") == 1


def test_imports_that_share_a_line_are_refused() -> None:
    assert "shares its line" in left_alone("no-sync", "import os; import abc\n" + DDP + STEP)
