"""Which changes are tried on a job, and which are not, with the reason."""

from dataclasses import replace

import pytest

from pitstop.bot.optimize.proposals import Proposal, Wishes
from pitstop.bot.optimize.request import QUICK, Sizes
from pitstop.transforms.patch import Refused

CHANGE = Proposal("no-sync", "one", "", "exact", (), (0.0,), lambda: Refused("never made"))
EXCHANGE = replace(CHANGE, several_processes=True)
NAMED_ONLY = replace(CHANGE, id="eight-bit-optimizer", opt_in=True)
OTHER_TRAINING = replace(CHANGE, id="packing", numerics="semantics")


@pytest.mark.parametrize(
    ("proposal", "wishes", "says"),
    [
        (CHANGE, Wishes(), None),
        (CHANGE, Wishes(only=("tf32",)), "not among"),
        (CHANGE, Wishes(disable=("NO-SYNC",)), "disabled"),
        (OTHER_TRAINING, Wishes(), "--allow packing"),
        (OTHER_TRAINING, Wishes(allow=("packing",)), None),
        (NAMED_ONLY, Wishes(), "--allow eight-bit-optimizer"),
        (NAMED_ONLY, Wishes(allow=("eight-bit-optimizer",)), None),
        (EXCHANGE, Wishes(processes=1), "the job runs one"),
        (EXCHANGE, Wishes(processes=2), None),
        (EXCHANGE, Wishes(), None),
    ],
)
def test_what_is_not_tried_is_told_why(proposal, wishes, says):
    reason = wishes.reject(proposal)
    assert reason is None if says is None else says in (reason or "")


def test_time_for_reports_is_a_part_of_a_short_session():
    assert Sizes(session_seconds=4 * 3600).work_seconds == 4 * 3600 - 300
    assert replace(QUICK, session_seconds=480).work_seconds == 432
