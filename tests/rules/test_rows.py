"""Rows judged on jobs built by hand: three-valued logic, which setting decides, what is said."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.rules.conditions import (
    AllOf,
    AnyOf,
    Case,
    Comparison,
    Condition,
    FactIs,
    KnobIs,
    KnobState,
    Not,
    PackageIs,
    Truth,
    deciding,
)
from pitstop.rules.finding import (
    Confidence,
    Location,
    Safety,
    Scalar,
    Setting,
    Severity,
    Span,
    Surface,
    Unknown,
    Value,
)
from pitstop.rules.job import (
    FrameworkUse,
    HardwareFacts,
    LaunchCommand,
    ModelFacts,
    TrainingJob,
)
from pitstop.rules.row_reader import RowError, read_rows
from pitstop.rules.rows import Row, shown

INDEX = {
    "general": {"prefix": "GEN"},
    "hf_trainer": {"prefix": "HF", "frameworks": ["hf_trainer"], "dialects": ["trl"]},
}


def at(line: int, path: str = "run.sh") -> Location:
    return Location(path, Span(line * 100, line * 100 + 4), line, 1, line, 5)


def setting(
    value: Value,
    knob: str = "dataloader.workers",
    surface: Surface = Surface.FLAG,
    *,
    line: int = 1,
    condition: str | None = None,
    framework: str = "hf_trainer",
    path: str = "run.sh",
) -> Setting:
    place = None if surface is Surface.DEFAULT else at(line, path)
    return Setting(
        knob, value, surface, "--workers", framework, value_at=place, condition=condition
    )


def job(*settings: Setting, **changes: object) -> TrainingJob:
    by_knob: dict[str, tuple[Setting, ...]] = {}
    for one in settings:
        by_knob[one.knob] = (*by_knob.get(one.knob, ()), one)
    base = {
        "id": "run",
        "title": "run",
        "purpose": "train",
        "frameworks": (FrameworkUse("hf_trainer"),),
        "settings": by_knob,
        "location": at(9),
    }
    return TrainingJob(**{**base, **changes})  # type: ignore[arg-type]


ROW = """
catalogue: general
rows:
  - id: GEN-Z01
    name: no-workers
    title: No workers
    category: data
    severity: warning
    priority: medium
    resource: time
    knob: dataloader.workers
    when: [{it: {is: 0}}]
    message: "{setting} prepares nothing ahead."
    cost: some
    sources: [https://example.org]
    what: a
    why: b
    leave_when: c
    fix: d
    fix_safety: e
    examples: {bad: [], good: []}
"""


def row(extra: str = "", text: str = ROW) -> Row:
    indented = "".join(f"    {line}\n" for line in extra.splitlines())
    (found,) = read_rows("some.yaml", text + indented, INDEX)
    return found


def fires(found: Row, *jobs: TrainingJob, versions: dict[str, str] | None = None) -> list[int]:
    return [finding.primary.line for one in jobs for finding in found.judge(one, versions or {})]


# --- three-valued logic -----------------------------------------------------------------------


class Says:
    def __init__(self, answer: Truth) -> None:
        self.answer = answer

    def holds(self, case: Case) -> Truth:
        return self.answer


CASE = Case(job(), {})
truths = st.sampled_from([True, False, None])


@given(st.lists(truths))
def test_all_of_is_false_when_one_is_and_unknown_when_one_is_not_known(
    answers: list[Truth],
) -> None:
    held = AllOf(tuple(Says(a) for a in answers)).holds(CASE)
    assert held is (False if False in answers else None if None in answers else True)


@given(st.lists(truths))
def test_any_of_is_the_mirror_image_of_all_of(answers: list[Truth]) -> None:
    parts: tuple[Condition, ...] = tuple(Says(a) for a in answers)
    mirrored = Not(AllOf(tuple(Not(part) for part in parts)))
    assert AnyOf(parts).holds(CASE) is mirrored.holds(CASE)


def test_not_of_unknown_is_unknown() -> None:
    assert Not(Says(None)).holds(CASE) is None


@pytest.mark.parametrize(
    ("op", "operand", "value", "held"),
    [
        ("is", 0, 0, True),
        ("is", 0, False, False),
        ("is", 1, True, False),
        ("is", 1, 1.0, True),
        ("is_not", "bf16", "fp16", True),
        ("in", ("bf16", "fp16"), "fp16", True),
        ("in", ("trl",), ("hf_trainer", "trl"), True),
        ("not_in", ("trl",), ("hf_trainer",), True),
        ("at_least", 4, 4, True),
        ("more_than", 4, 4, False),
        ("at_most", 4, 4.5, False),
        ("less_than", 100, 50, True),
        ("less_than", 100, None, False),
        ("at_most", 1, False, False),
        ("at_least", 1, "2", False),
        ("at_least", (8, 0), (9, 0), True),
        ("at_least", (8, 0), (7, 5), False),
        ("is", 0, Unknown("$N"), None),
    ],
)
def test_a_test_of_a_value(op: str, operand: Scalar, value: Value, held: Truth) -> None:
    assert Comparison(op, operand).of(value) is held


# --- which setting decides --------------------------------------------------------------------


def test_the_winner_alone_decides() -> None:
    flag, config = setting(8), setting(0, surface=Surface.YAML, line=2)
    assert deciding((flag, config)) == (flag,)


def test_a_conditional_winner_shares_with_what_holds_otherwise() -> None:
    flag = setting(8, condition="$FAST")
    config = setting(0, surface=Surface.YAML, line=2)
    rest = setting(0, surface=Surface.JSON, line=3)
    assert deciding((flag, config, rest)) == (flag, config)


def test_calls_decide_beside_each_other() -> None:
    calls = (setting(0, surface=Surface.KEYWORD), setting(4, surface=Surface.KEYWORD, line=2))
    assert deciding((*calls, setting(0, surface=Surface.DEFAULT))) == calls


def test_a_default_counts_only_alone() -> None:
    default = setting(0, surface=Surface.DEFAULT)
    assert deciding((default,)) == (default,)
    assert deciding((setting(8, condition="$FAST"), default)) == (setting(8, condition="$FAST"),)


def loader(*numbers: int | None) -> tuple[Setting, ...]:
    """Calls on lines 1, 2, ...: a number is a keyword, None leaves it to the call's default."""
    made = []
    for line, number in enumerate(numbers, 1):
        call = Location("a.py", Span(line * 100, line * 100 + 50), line, 1, line, 51)
        inside = Location("a.py", Span(line * 100 + 20, line * 100 + 30), line, 21, line, 31)
        surface = Surface.DEFAULT if number is None else Surface.KEYWORD
        where = call if number is None else inside
        made.append(
            Setting("dataloader.workers", number or 0, surface, "w", "pytorch", name_at=where)
        )
    return tuple(sorted(made, key=lambda s: not s.written))


def test_a_call_that_leaves_the_keyword_out_decides_beside_one_that_does_not() -> None:
    assert len(deciding(loader(8, None))) == 2


def test_the_default_of_a_call_that_says_something_does_not_count() -> None:
    written, _ = loader(8, None)
    own = Location("a.py", Span(100, 150), 1, 1, 1, 51)
    same = Setting("dataloader.workers", 0, Surface.DEFAULT, "w", "pytorch", name_at=own)
    assert deciding((written, same)) == (written,)


def test_branches_that_differ_make_a_value_unknown() -> None:
    torn = job(
        setting("bf16", "precision.compute", condition="$A"),
        setting("fp16", "precision.compute", condition="! $A"),
    )
    assert KnobIs("precision.compute", Comparison("is", "bf16")).holds(Case(torn, {})) is None
    assert KnobIs("precision.compute", Comparison("is_not", "fp32")).holds(Case(torn, {})) is True


@pytest.mark.parametrize(
    ("settings", "state", "held"),
    [
        ((), "absent", False),
        ((), "written", False),
        ((setting(0, surface=Surface.DEFAULT),), "absent", True),
        ((setting(0, surface=Surface.DEFAULT),), "written", False),
        ((setting(0, surface=Surface.DEFAULT),), "present", True),
        ((setting(None, surface=Surface.DEFAULT),), "present", False),
        ((setting(Unknown("**kw"), surface=Surface.DEFAULT),), "absent", None),
        ((setting(0),), "absent", False),
        ((setting(0),), "written", True),
    ],
)
def test_whether_anybody_sets_a_knob(
    settings: tuple[Setting, ...], state: str, held: Truth
) -> None:
    assert KnobState("dataloader.workers", state).holds(Case(job(*settings), {})) is held


def test_a_knob_that_the_framework_lacks_equals_nothing() -> None:
    case = Case(job(), {})
    assert KnobIs("kernels.liger", Comparison("is", False)).holds(case) is False
    assert KnobIs("kernels.liger", Comparison("is_not", False)).holds(case) is True


@pytest.mark.parametrize(
    ("pin", "op", "version", "held"),
    [
        ("==2.5.1", "below", "2.8", True),
        ("==2.5.1", "at_least", "2.8", False),
        (">=2.5", "at_least", "2.8", None),
        (">=2.8", "at_least", "2.8", True),
        (">=2.4,<2.6", "below", "2.8", True),
        ("", "below", "2.8", None),
        (None, "below", "2.8", None),
    ],
)
def test_a_version_holds_only_for_all_that_the_pin_allows(
    pin: str | None, op: str, version: str, held: Truth
) -> None:
    versions = {} if pin is None else {"torch": pin}
    assert PackageIs("torch", op, version).holds(Case(job(), versions)) is held


def test_facts_that_nobody_states_are_unknown() -> None:
    ampere = FactIs("gpu.capability", Comparison("at_least", (8, 0)))
    assert ampere.holds(Case(job(), {})) is None
    assert ampere.holds(Case(job(hardware=HardwareFacts(capability=(9, 0))), {})) is True
    assert FactIs("job.gpus", Comparison("more_than", 1)).holds(Case(job(), {})) is None


def launch(launchers: tuple[str, ...], processes: int | None, nodes: int | None) -> LaunchCommand:
    return LaunchCommand(
        launchers, "train.py", at(1), (), (), (), {}, at(1), processes=processes, nodes=nodes
    )


@pytest.mark.parametrize(
    ("processes", "nodes", "gpus"), [(8, None, 8), (8, 2, 16), (None, None, 4), (None, 2, 8)]
)
def test_gpus_are_what_the_launch_starts_else_what_the_machines_have(
    processes: int | None, nodes: int | None, gpus: int
) -> None:
    one = job(
        launch=launch(("torchrun",), processes, nodes),
        hardware=HardwareFacts(gpus_per_node=4, nodes=nodes),
    )
    assert FactIs("job.gpus", Comparison("is", gpus)).holds(Case(one, {})) is True


@pytest.mark.parametrize(
    ("launchers", "name"), [((), "python"), (("srun", "torchrun"), "torchrun")]
)
def test_the_innermost_launcher_counts(launchers: tuple[str, ...], name: str) -> None:
    one = job(launch=launch(launchers, None, None))
    assert FactIs("job.launcher", Comparison("is", name)).holds(Case(one, {})) is True


# --- judging ----------------------------------------------------------------------------------


def test_unknown_never_fires() -> None:
    assert fires(row(), job(setting(Unknown("$WORKERS")))) == []


def test_the_deciding_line_is_reported() -> None:
    assert fires(row(), job(setting(0, line=3), setting(8, surface=Surface.YAML))) == [3]
    assert fires(row(), job(setting(8, line=3), setting(0, surface=Surface.YAML))) == []


def test_each_call_is_judged() -> None:
    calls = [setting(n, surface=Surface.KEYWORD, line=i) for i, n in enumerate((0, 4, 0), 1)]
    assert fires(row(), job(*calls)) == [1, 3]


def test_a_default_is_reported_where_the_job_is_made_and_less_surely() -> None:
    (finding,) = row().judge(job(setting(0, surface=Surface.DEFAULT)), {})
    assert finding.primary.line == 9
    assert finding.confidence is Confidence.MEDIUM
    assert "Nothing sets it" in finding.message


def test_a_default_is_shown_in_the_config_that_holds_its_neighbours() -> None:
    one = job(
        setting(0, surface=Surface.DEFAULT),
        setting(2, "batch.micro", Surface.YAML, line=5, path="a.yaml"),
        setting("bf16", "precision.compute", Surface.YAML, line=2, path="a.yaml"),
        configs=("a.yaml",),
    )
    (finding,) = row().judge(one, {})
    assert (finding.primary.path, finding.primary.line) == ("a.yaml", 2)


def test_serving_jobs_are_left_alone() -> None:
    assert fires(row(), job(setting(0), purpose="serve")) == []


def test_unless_blocks_when_unknown_and_unless_known_does_not() -> None:
    small = "- {model.parameters: {less_than: 1B}}"
    blocked, open_ = row(f"unless:\n  {small}"), row(f"unless_known:\n  {small}")
    unknown, known = job(setting(0)), job(setting(0), model=ModelFacts(parameters=500_000_000))
    large = job(setting(0), model=ModelFacts(parameters=7_000_000_000))
    assert [fires(blocked, j) for j in (unknown, known, large)] == [[], [], [1]]
    assert [fires(open_, j) for j in (unknown, known, large)] == [[1], [], [1]]


def test_a_cure_that_would_not_work_is_not_advised() -> None:
    needs = row("requires:\n  - {text: a GPU, is: {device.cpu: {is: false}}}")
    clashes = row("conflicts:\n  - {text: Unsloth, is: {kernels.unsloth: {is: true}}}")
    cpu = setting(True, "device.cpu", line=2)
    unsloth = setting(True, "kernels.unsloth", line=2)
    assert [fires(needs, job(setting(0), cpu)), fires(needs, job(setting(0)))] == [[], []]
    assert [fires(clashes, job(setting(0), unsloth)), fires(clashes, job(setting(0)))] == [[], [1]]


def test_information_only_under_a_condition() -> None:
    quiet = row("info_when: [{model.kind: {is: llm}}]")
    (text,) = quiet.judge(job(setting(0), model=ModelFacts(kind="llm")), {})
    (image,) = quiet.judge(job(setting(0), model=ModelFacts(kind="vision")), {})
    assert (text.severity, image.severity) == (Severity.INFO, Severity.WARNING)


def test_what_holds_under_a_condition_says_so_or_is_left_alone() -> None:
    one = job(setting(0, condition="$DEBUG = 1"))
    (finding,) = row().judge(one, {})
    assert finding.message.endswith("This holds when `$DEBUG = 1`.")
    assert fires(row("unconditional: true"), one) == []


def test_rows_of_a_framework_judge_its_jobs_only() -> None:
    own = row(text=ROW.replace("general", "hf_trainer").replace("GEN-", "HF-"))
    other = job(setting(0), frameworks=(FrameworkUse("llamafactory"),))
    assert [fires(own, job(setting(0))), fires(own, other)] == [[1], []]


def test_own_settings_are_those_of_the_framework_and_its_dialects() -> None:
    text = ROW.replace("general", "hf_trainer").replace("GEN-", "HF-")
    own = row("own: true", text)
    loader = setting(0, surface=Surface.KEYWORD, framework="pytorch")
    assert fires(own, job(loader)) == []
    assert fires(own, job(setting(0, framework="trl"))) == [1]
    assert fires(own, job(loader, setting(0, line=4, surface=Surface.KEYWORD))) == [4]


def test_a_row_of_several_knobs_judges_each() -> None:
    both = row(
        text=ROW.replace(
            "knob: dataloader.workers", "knob: [nccl.p2p_disable, nccl.shm_disable]"
        ).replace("{is: 0}", "{is: true}")
    )
    one = job(
        setting(True, "nccl.p2p_disable", Surface.ENV, line=1),
        setting(True, "nccl.shm_disable", Surface.ENV, line=2),
    )
    assert fires(both, one) == [1, 2]


def test_a_row_without_a_knob_speaks_of_the_launch() -> None:
    text = ROW.replace("    knob: dataloader.workers\n", "").replace(
        "{it: {is: 0}}", "{job.launcher: {is: python}}"
    )
    found = row(text=text.replace("{setting} prepares", "One process prepares"))
    assert fires(found, job(launch=launch((), None, None))) == [1]
    assert fires(found, job(launch=launch(("torchrun",), 8, None))) == []


# --- fixes ------------------------------------------------------------------------------------


def fix_of(extra: str, one: TrainingJob) -> object:
    (finding,) = row(extra).judge(one, {})
    return finding.fix and (finding.fix.transform, dict(finding.fix.args), finding.fix.safety)


def test_a_fix_names_the_knob_of_the_setting() -> None:
    made = fix_of("change: {set: 4, safety: safe, text: four}", job(setting(0)))
    assert made == ("set_knob", {"knob": "dataloader.workers", "value": 4}, Safety.SAFE)


def test_a_fix_can_remove_or_set_another_knob() -> None:
    removed = fix_of("change: {unset: true, safety: safe, text: default}", job(setting(0)))
    assert removed == ("unset_knob", {"knob": "dataloader.workers"}, Safety.SAFE)
    other = "change: {knob: dataloader.pin_memory, set: true, safety: safe, text: pin}"
    assert fix_of(other, job(setting(0)))[1] == {  # type: ignore[index]
        "knob": "dataloader.pin_memory",
        "value": True,
    }


CHOICES = """change:
  set:
    - {when: [{gpu.capability: {at_least: sm80}}], value: 8}
    - {value: 2}
  safety: safe
  text: some"""


@pytest.mark.parametrize(("capability", "value"), [((9, 0), 8), ((7, 0), 2), (None, None)])
def test_a_fix_chooses_by_condition_and_not_at_all_when_unknown(
    capability: tuple[int, int] | None, value: int | None
) -> None:
    made = fix_of(CHOICES, job(setting(0), hardware=HardwareFacts(capability=capability)))
    assert made == (
        value and ("set_knob", {"knob": "dataloader.workers", "value": value}, Safety.SAFE)
    )


@pytest.mark.parametrize(
    ("surface", "text"),
    [
        (Surface.FLAG, "`--workers 0`"),
        (Surface.ENV, "`--workers=0`"),
        (Surface.YAML, "`--workers: 0`"),
        (Surface.KEYWORD, "`--workers=0`"),
        (Surface.DEFAULT, "`--workers` (default 0)"),
    ],
)
def test_a_setting_is_shown_as_it_is_written(surface: Surface, text: str) -> None:
    assert shown(setting(0, surface=surface)) == text


# --- the reader is strict ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("knob: dataloader.workers", "knob: dataloader.worker"), "did you mean 'dataloader.wor"),
        (("severity: warning", "severity: warn"), "did you mean 'warning'"),
        (("when: [{it: {is: 0}}]", "wen: []"), "unknown word 'wen', did you mean 'when'"),
        (("{is: 0}", "{iz: 0}"), "unknown test 'iz'"),
        (("{it: {is: 0}}", "{model.kindd: {is: llm}}"), "did you mean 'model.kind'"),
        (("{it: {is: 0}}", "{precision.compute: {is: bf61}}"), "did you mean 'bf16'"),
        (("{it: {is: 0}}", "{model.parameters: {at_least: 7X}}"), "write 7B"),
        (("{it: {is: 0}}", "{gpu.capability: {at_least: 8}}"), "write sm80"),
        (("{it: {is: 0}}", "{it: {in: 0}}"), "`in` takes a list"),
        (("{it: {is: 0}}", "{package.torch: {at_least: 2.8}}"), "quoted version"),
        (("{setting}", "{value}"), "only {setting}"),
        (("id: GEN-Z01", "id: HF-Z01"), "must begin with GEN-"),
        (("catalogue: general", "catalogue: genral"), "did you mean 'general'"),
        (("    cost: some\n", ""), "lacks cost"),
    ],
)
def test_a_malformed_row_is_refused_with_its_name(change: tuple[str, str], said: str) -> None:
    with pytest.raises(RowError) as caught:
        row(text=ROW.replace(*change))
    assert said in str(caught.value)
    assert str(caught.value).startswith("some.yaml")


@pytest.mark.parametrize(
    "change",
    [
        "change: {set: 4, unset: true, safety: safe, text: x}",
        "change: {safety: safe, text: x}",
        "change: {set: 4, safety: never, text: x}",
        "change: {set: 4, safety: safe}",
        "change: {knob: precision.compute, set: bf61, safety: safe, text: x}",
    ],
)
def test_a_malformed_fix_is_refused(change: str) -> None:
    with pytest.raises(RowError, match="GEN-Z01: change"):
        row(change)


def test_no_two_words_of_the_vocabulary_collide() -> None:
    from pitstop.rules.conditions import STATES, TESTS
    from pitstop.rules.job_facts import FACTS
    from pitstop.rules.knobs import knobs

    words = [list(STATES), list(TESTS), list(FACTS), list(knobs()), ["all_of", "any_of", "not"]]
    flat = list(itertools.chain.from_iterable(words))
    assert len(flat) == len(set(flat))
