"""A report that holds every kind of thing a report can hold."""

from pitstop.bot.report import Report, ReportedFinding
from pitstop.rules.engine import Suppressed
from pitstop.rules.finding import (
    Confidence,
    Finding,
    Fix,
    Location,
    Priority,
    Related,
    Safety,
    Setting,
    Severity,
    Span,
    Surface,
    Unknown,
    Unread,
    Value,
)
from pitstop.rules.job import (
    Fact,
    FrameworkUse,
    HardwareFacts,
    LaunchCommand,
    ModelFacts,
    MultiNode,
    TrainingJob,
    Word,
)
from pitstop.transforms.patch import Changed, Edit, Outcome, Patch

AT = Location("run.sh", Span(7, 12), 1, 8, 1, 13)


def setting(value: Value = 0) -> Setting:
    return Setting(
        "dataloader.workers",
        value,
        Surface.FLAG,
        "--dataloader_num_workers",
        "transformers",
        raw="0",
        value_at=AT,
        name_at=AT,
    )


def finding(value: Value = 0, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(
        rule="HF-F01",
        name="single-process-data-loading",
        title="Batches are loaded by the process that drives the GPU",
        severity=severity,
        priority=Priority.HIGH,
        confidence=Confidence.HIGH,
        resource="time",
        primary=AT,
        message="no worker process loads data · 数据加载",
        cost="10 to 30 % of the step",
        source="PyTorch data loading tutorial",
        leave_when="the data is already in memory",
        advice="use four workers",
        fix=Fix.set_knob("dataloader.workers", 4, safety=Safety.SAFE, text="use 4 workers"),
        deciding=setting(value),
        related=(Related(AT, "the launch"),),
        jobs=("run.sh",),
        anchor="torchrun train.py",
        evidence={"cpus": "8"},
    )


def job() -> TrainingJob:
    word = Word("torchrun", AT)
    launch = LaunchCommand(
        launchers=("srun", "torchrun"),
        entry="train.py",
        entry_location=AT,
        words=(word, Word("", AT, why_unknown="$X is not set")),
        launcher_args=(),
        args=(word,),
        env={"OMP_NUM_THREADS": Word("1", AT)},
        location=AT,
        processes=8,
        nodes=2,
        multi_node=MultiNode.B,
    )
    return TrainingJob(
        id="run.sh",
        title="torchrun train.py",
        purpose="train",
        frameworks=(FrameworkUse("transformers", ">=4.46", "import", AT),),
        settings={
            "dataloader.workers": (setting(0), setting(Unknown("read from the environment")))
        },
        launch=launch,
        entry="train.py",
        configs=("ds.json",),
        files=frozenset({"run.sh", "train.py"}),
        model=ModelFacts(name="Qwen2-7B", parameters=7_615_616_512, moe=False),
        hardware=HardwareFacts(gpu="H100", capability=(9, 0)),
        facts={"world": Fact(16, "8 x 2")},
        unread=(Unread("run.sh", "eval", 3),),
    )


CHANGED = Changed(
    Patch((Edit("run.sh", Span(7, 8), "0", "4"),), "use 4 workers", (("new.txt", "x"),))
)

DIFF = "--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-train.py --workers 0\n+train.py --workers 4\n"


def report(outcome: Outcome = CHANGED, value: Value = 0, diff: str = DIFF) -> Report:
    return Report(
        version="0.1.0",
        jobs=(job(),),
        findings=(ReportedFinding(finding(value), outcome, introduced=False, diff=diff),),
        suppressed=(Suppressed(finding(), "tiny data set"),),
        unused_suppressions=((AT, "HF-A01"),),
        unread=(Unread("data.bin", "binary"),),
        skipped=(("HF-X", "broke"),),
        revision="a" * 40,
        base="b" * 40,
        files=3,
        seconds=0.25,
        jobs_before=(job(),),
    )
