"""Files that are equal in two states of a tree are read once; others never stand for each other."""

from pitstop.rules.facts import gather
from pitstop.rules.sources import Sources
from pitstop.rules.tree import DictTree

BEFORE = {
    "train.py": "from settings import RATE\nloss.backward()\n",
    "settings.py": "RATE = 1\n",
    "sft.yaml": "bf16: true\n",
    "run.sh": "source env.sh\npython train.py\n",
    "env.sh": "export A=1\n",
}


def test_what_is_equal_is_shared_and_what_is_not_is_read():
    now = Sources(DictTree({**BEFORE, "settings.py": "RATE = 2\n"}))
    for path in ("train.py", "settings.py"):
        now.module(path)
    now.config("sft.yaml")
    then = Sources(DictTree(BEFORE), now)
    assert then.module("train.py") is now.module("train.py")
    assert then.config("sft.yaml") is now.config("sft.yaml")
    assert then.module("settings.py") is not now.module("settings.py")
    assert then.module("settings.py").file.text == "RATE = 1\n"


def test_scripts_are_read_with_what_they_follow():
    now = Sources(DictTree({**BEFORE, "env.sh": "export A=2\n"}))
    then = Sources(DictTree(BEFORE), now)
    assert now.script("run.sh") is not then.script("run.sh")


def test_facts_are_the_same_with_and_without():
    now = gather(DictTree({**BEFORE, "settings.py": "RATE = 2\n"}))
    alone, shared = gather(DictTree(BEFORE)), gather(DictTree(BEFORE), like=now.sources)
    assert alone.jobs == shared.jobs
    assert alone.unread == shared.unread
