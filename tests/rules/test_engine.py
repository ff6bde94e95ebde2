"""The engine on small repositories: selection, merging, precedence, comments, goals, failures."""

from collections.abc import Iterator

import pytest

from pitstop.rules import engine
from pitstop.rules.engine import Audit, all_rules, audit, means
from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.finding import Finding, Safety, Severity, UserError
from pitstop.rules.rule import Check, RuleInfo, Sections, parse_page
from pitstop.rules.tree import DictTree

SFT = """\
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
do_train: true
finetuning_type: lora
dataset: identity
template: qwen
cutoff_len: 1024
output_dir: saves/qwen
bf16: true
enable_liger_kernel: true
dataloader_num_workers: 4
preprocessing_num_workers: 16
"""
LOOP = """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer
loader = DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=True)
for images, labels in loader:
    images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    torch.cuda.empty_cache()
"""


def run(files: dict[str, str], **options: object) -> Audit:
    return audit(gather(DictTree(files)), **options)  # type: ignore[arg-type]


def found(result: Audit) -> list[tuple[str, str, int]]:
    return [(f.rule, f.primary.path, f.primary.line) for f in result.findings]


# --- which rules run --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "held"),
    [
        ("HF-H01", True),
        ("hf-h01", True),
        ("single-process-data-loading", True),
        ("HF-H", True),
        ("HF", True),
        ("LF", False),
        ("single-process", False),
    ],
)
def test_a_word_means_a_rule_by_id_name_or_prefix(word: str, held: bool) -> None:
    (info,) = [i for i in all_rules() if i.id == "HF-H01"]
    assert means(word, info) is held


def test_selection_and_exclusion() -> None:
    files = {"sft.yaml": SFT + "logging_steps: 1\nenable_torch_profiler: true\n"}
    assert {f[0] for f in found(run(files))} == {"LF-X02a", "LF-X04"}
    assert {f[0] for f in found(run(files, select=["LF-X04"]))} == {"LF-X04"}
    assert {f[0] for f in found(run(files, select=["LF"], ignore=["profiler-in-production"]))} == {
        "LF-X02a"
    }


def test_a_word_that_means_no_rule_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'LF-X02"):
        run({"a.txt": ""}, select=["LF-X02q"])
    with pytest.raises(UserError, match="pitstop rules"):
        run({"a.txt": ""}, ignore=["zzzzzz"])


def test_an_unknown_goal_is_refused() -> None:
    with pytest.raises(UserError, match="balanced, throughput, memory"):
        run({"a.txt": ""}, goal="speed")


# --- goals ------------------------------------------------------------------------------------

MEMORY = {
    "sft.yaml": SFT.replace("1024", "8192")
    + "disable_gradient_checkpointing: true\nenable_torch_profiler: true\n"
}


def test_throughput_leaves_out_advice_that_costs_time() -> None:
    assert "LF-C01b" in {f[0] for f in found(run(MEMORY))}
    assert "LF-C01b" not in {f[0] for f in found(run(MEMORY, goal="throughput"))}


def test_memory_comes_first_when_it_is_the_goal() -> None:
    first, second = run(MEMORY, goal="memory").findings
    assert (first.resource, second.resource) == ("memory", "time")
    assert first.severity == second.severity


# --- merging and precedence -------------------------------------------------------------------


def test_jobs_that_share_a_finding_share_one_report() -> None:
    files = {
        "one.sh": "llamafactory-cli train sft.yaml output_dir=a\n",
        "two.sh": "llamafactory-cli train sft.yaml output_dir=b\n",
        "sft.yaml": SFT + "logging_steps: 1\n",
    }
    result = run(files)
    assert found(result) == [("LF-X02a", "sft.yaml", 13)]
    assert len(result.findings[0].jobs) == 2


def test_the_framework_s_own_catalogue_wins_over_the_general_one() -> None:
    files = {"sft.yaml": SFT + "ddp_find_unused_parameters: true\n"}
    assert {f[0] for f in found(run(files))} == {"LF-X06"}
    assert {f[0] for f in found(run(files, ignore=["LF-X06"]))} == {"GEN-E07"}


def test_findings_are_ordered_by_severity_then_place() -> None:
    files = {
        "a.yaml": SFT + "logging_steps: 1\nflash_attn: disabled\n",
        "b.yaml": SFT + "flash_attn: disabled\n",
    }
    assert found(run(files)) == [
        ("LF-F01a", "a.yaml", 14),
        ("LF-F01a", "b.yaml", 13),
        ("LF-X02a", "a.yaml", 13),
    ]


def test_two_audits_of_the_same_files_are_equal() -> None:
    assert run(MEMORY) == run(MEMORY)


def test_a_fingerprint_survives_moved_lines() -> None:
    (before,) = run({"train.py": LOOP}).findings
    (after,) = run({"train.py": "# a new line\n" + LOOP}).findings
    assert before.primary.line + 1 == after.primary.line
    assert before.fingerprint == after.fingerprint


# --- comments ---------------------------------------------------------------------------------


def test_a_comment_with_a_reason_answers() -> None:
    line = "    torch.cuda.empty_cache()"
    said = f"{line}  # pitstop: ignore[GEN-C07] the next model shares this GPU"
    result = run({"train.py": LOOP.replace(line, said)})
    assert result.findings == ()
    ((finding, reason),) = [(s.finding.rule, s.reason) for s in result.suppressed]
    assert (finding, reason) == ("GEN-C07", "the next model shares this GPU")
    assert result.unused_suppressions == ()


def test_a_comment_without_a_reason_does_not_and_is_reported() -> None:
    line = "    torch.cuda.empty_cache()"
    result = run({"train.py": LOOP.replace(line, f"{line}  # pitstop: ignore[GEN-C07]")})
    assert found(result) == [("GEN-C07", "train.py", 11)]
    ((at, text),) = result.unused_suppressions
    assert (at.line, "say why" in text) == (11, True)


def test_a_comment_above_a_continued_command_answers_for_its_flags() -> None:
    files = {
        "run.sh": "# pitstop: ignore[LF-X02a] a demonstration\nllamafactory-cli train sft.yaml \\\n"
        "  --logging_steps 1\n",
        "sft.yaml": SFT,
    }
    result = run(files)
    assert (found(result), len(result.suppressed)) == ([], 1)


def test_comments_that_answer_nothing_are_reported() -> None:
    text = (
        "# pitstop: ignore-file[LF-X04] was once on\n# pitstop: ignore[LF-X99] no such rule\n" + SFT
    )
    said = [text for _, text in run({"sft.yaml": text}).unused_suppressions]
    assert said[0] == "LF-X04 has nothing to answer here"
    assert said[1].startswith("'LF-X99' means no rule")


def test_a_comment_about_a_rule_that_did_not_run_is_not_called_unused() -> None:
    text = "# pitstop: ignore-file[LF-X04] was once on\n" + SFT
    assert run({"sft.yaml": text}, select=["LF-X02a"]).unused_suppressions == ()


def test_an_explained_choice_is_information_only() -> None:
    plain = "    torch.cuda.empty_cache()"
    noted = "    # NOTE: another process shares the GPU\n" + plain
    (before,) = run({"train.py": LOOP}).findings
    (after,) = run({"train.py": LOOP.replace(plain, noted)}).findings
    assert (before.severity, after.severity) == (Severity.WARNING, Severity.INFO)
    assert "shares the GPU" in after.evidence["note"]


def test_an_explained_setting_is_information_only() -> None:
    noted = "enable_torch_profiler: true  # needed until the trace is understood\n"
    (finding,) = run({"sft.yaml": SFT + noted}).findings
    assert (finding.rule, finding.severity) == ("LF-X04", Severity.INFO)


# --- failures ---------------------------------------------------------------------------------


class BrokenOnPurpose(Check):
    """A rule that breaks.

    ## What it finds

    a

    ## Why it costs

    b

    ## When it is right

    c

    ## Fix

    d

    ## Fix safety

    e
    """

    id = "GEN-Z99"
    name = "broken-on-purpose"
    category = "test"
    cost = "nothing"
    sources = ("https://example.org",)
    bad = ()
    good = ()

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        raise KeyError("the table")
        yield


def test_a_broken_rule_is_skipped_with_its_reason() -> None:
    facts = gather(DictTree({"train.py": LOOP}))
    whole = [*engine._rules(), BrokenOnPurpose()]
    findings, skipped = engine._run(whole, facts)
    assert skipped == [("GEN-Z99", "KeyError: 'the table'")]
    assert [f.rule for f in findings] == ["GEN-C07"]


def test_an_empty_repository_has_nothing_to_say() -> None:
    assert run({}) == Audit()


# --- metadata ---------------------------------------------------------------------------------


def test_a_check_s_docstring_is_its_page() -> None:
    info = BrokenOnPurpose().info
    assert isinstance(info, RuleInfo)
    assert (info.title, info.sections) == ("A rule that breaks", Sections("a", "b", "c", "d", "e"))
    assert info.safety is Safety.NEVER


def test_a_docstring_without_a_heading_is_refused() -> None:
    with pytest.raises(ValueError, match="headings are"):
        parse_page("Title.\n\n## What it finds\n\ntext\n")
