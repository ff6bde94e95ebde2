"""The one sentence at the head of the final report."""

import pytest

from pitstop.bot.optimize.summary import verdict

TRIED = {"id": "tf32", "outcome": "not faster"}
KEPT = {"id": "tf32", "outcome": "kept"}
FINAL = {"speed_text": "1.20x (95 % interval 1.10 to 1.30)"}
FAILED = {"state": "baseline", "result": "failed", "reason": "no step was seen"}


NONE_KEPT = "No significant gain: nothing that was tried is kept."


@pytest.mark.parametrize(
    ("facts", "steps", "says"),
    [
        ({}, [FAILED], "Nothing was measured, so nothing is proposed: no step was seen."),
        ({}, [], "No change was tried: nothing was found that applies to this job."),
        ({"tried": [TRIED]}, [], NONE_KEPT),
        ({"tried": [KEPT], "final": FINAL}, [], f"{FINAL['speed_text']} with 1 change."),
        ({"tried": [KEPT]}, [], "1 change kept, each measured alone; the whole was not."),
        (
            {"tried": [TRIED], "stopped": "cancelled"},
            [],
            f"{NONE_KEPT} It was stopped early: cancelled.",
        ),
        ({"bug": "KeyError"}, [], "Stopped by an error of Pitstop itself: KeyError."),
    ],
)
def test_the_verdict_says_what_came_of_it(facts, steps, says):
    measured = {} if steps else {"steps": 25}
    assert verdict({**measured, **facts}, steps) == says


def test_an_unfinished_one_says_so():
    assert "has not finished" in verdict({"steps": 25}, finished=False)
