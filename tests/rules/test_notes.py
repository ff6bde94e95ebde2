"""Comments that give a reason, and those that only describe."""

from __future__ import annotations

import pytest

from pitstop.rules.notes import comment_text, explains


@pytest.mark.parametrize(
    "comment",
    [
        "# NOTE: fork breaks", "# because of OOM", "# don't change", "# don’t change", "# do not x",
        "# required by NCCL", "# workaround for a bug", "# work around", "# intentionally slow",
        "# deliberate", "# must stay 0", "# needed for resuming", "# avoids a crash", "# 必须为 0",
    ],
)  # fmt: skip
def test_a_reason(comment: str) -> None:
    assert explains(comment)


@pytest.mark.parametrize(
    "comment",
    [
        "# number of workers",
        "# ### train",
        "# notebook",
        "# mustard",
        "# choices: [a, b]",
        "# 学习率",
        "",
    ],
)
def test_a_description(comment: str) -> None:
    assert not explains(comment)


@pytest.mark.parametrize(
    ("comment", "text"),
    [("# a b ", "a b"), ("#: a", ": a"), ("// a", "a"), ("/* a */", "a"), ("##  a ##", "a ##")],
)
def test_text(comment: str, text: str) -> None:
    assert comment_text(comment) == text
