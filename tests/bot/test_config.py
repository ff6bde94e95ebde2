import json
import typing
from importlib import resources

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.bot import config_text
from pitstop.bot.config import (
    Config,
    check_config,
    config_schema,
    find_config,
    load_config,
    read_config,
)
from pitstop.rules.finding import Severity, UserError
from pitstop.rules.tree import DictTree

FULL = """\
gpu: H100
gpus_per_node: 8
nodes: 2
goal: memory
select: [GEN, eager-attention]
ignore:
  - GEN-E05d
severity:
  eager-attention: critical
fail_on: warning
paths:
  include: [train/]
  exclude: ["**/old/*.sh"]
language: zh
review:
  max_inline: 5
  filter: file
  drafts: true
  skip_label: no-pitstop
  check_run: false
  sarif: true
  resolve: false
jobs:
  pretrain:
    launch: torchrun --nproc_per_node 8 train.py
    gpu: H100
    image: train:2
    data: {/data: /srv/data}
    env: [OMP_NUM_THREADS]
    network: true
    gpus: 2
    steps: 40
    deadline: 90
optimize:
  image: train:1
  dockerfile: docker/Dockerfile
  context: docker
  packages: [liger-kernel]
  users: [mona]
  deadline: 60
  memory: 64
allow: [lower-precision]
multinode: true
"""


def test_an_empty_file_means_the_defaults() -> None:
    assert load_config("", "pitstop.yml") == Config()
    assert load_config("# nothing yet\n", "pitstop.yml") == Config()


def test_every_key_is_read() -> None:
    config = load_config(FULL, "pitstop.yml")
    assert set(config.model_fields_set) == set(Config.model_fields)
    assert config.jobs["pretrain"].launch == "torchrun --nproc_per_node 8 train.py"
    assert config.review.skip_label == "no-pitstop"


def test_the_request_says_what_the_configuration_says() -> None:
    request = load_config(FULL, "pitstop.yml").request()
    assert request.hardware is not None
    assert (request.hardware.gpu, request.hardware.total_gpus) == ("H100", 16)
    assert request.select == ("GEN", "eager-attention")
    assert request.severities == {"eager-attention": Severity.CRITICAL}
    assert (request.include, request.exclude) == (("train/",), ("**/old/*.sh",))
    assert request.goal == "memory"


def test_no_hardware_is_claimed_when_none_is_configured() -> None:
    assert Config().request().hardware is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gaol: memory\n", "1: unknown key 'gaol'; did you mean 'goal'?"),
        (
            "goal: memory\nreview:\n  drafs: true\n",
            "3: unknown key 'review.drafs'; did you mean 'drafts'?",
        ),
        (
            "jobs:\n  a:\n    lanch: x\n    launch: y\n",
            "3: unknown key 'jobs.a.lanch'; did you mean 'launch'?",
        ),
        ("goal: fast\n", "1: goal: 'fast' is not one of balanced, throughput or memory"),
        ("\n\nnodes: many\n", "3: nodes: input should be a valid integer"),
        ("nodes: 0\n", "1: nodes: input should be greater than or equal to 1"),
        (
            "review: {max_inline: 26}\n",
            "1: review.max_inline: input should be less than or equal to 25",
        ),
        ("ignore:\n  - GEN-D01\n  - 7\n", "3: ignore.1: input should be a valid string"),
        (
            "ignore: [eager-atention]\n",
            "1: ignore: 'eager-atention' means no rule; did you mean 'eager-attention'?",
        ),
        ("severity:\n  zzz: info\n", "2: severity: 'zzz' means no rule; nothing like it is known"),
        ("paths: everything\n", "1: paths: input should be a valid dictionary"),
        ("goal: memory\ngoal: balanced\n", "2: 'goal' is set twice"),
        ("- goal\n", "1: must be a mapping of keys to values"),
        ("just words\n", "1: must be a mapping of keys to values"),
        ("goal: [\n", "2: not YAML: "),
        ("? [a]\n: b\n", "1: a key must be a single word"),
        ("a: !!python/object:os.system x\n", "1: not YAML: could not determine a constructor"),
        ("goal: " + "[" * 60 + "]" * 60, "1: nested deeper than 20 levels"),
        ("a: " + "x" * 100_001, "1: longer than 100,000 characters"),
    ],
)
def test_a_fault_is_told_with_its_line(text: str, problem: str) -> None:
    config, problems = check_config(text)
    assert config is None
    assert f"{problems[0].line}: {problems[0].text}".startswith(problem)
    with pytest.raises(UserError, match=r"^pitstop\.yml:\d+: "):
        load_config(text, "pitstop.yml")


def test_the_sentence_says_how_many_more_faults_there_are() -> None:
    with pytest.raises(UserError, match=r"^p\.yml:1: .* \(1 more: run `pitstop config check`\)$"):
        load_config("gaol: x\nnodse: 2\n", "p.yml")


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x]"]
    lines += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
    _, problems = check_config("\n".join(lines))
    assert problems[0].text == "aliases expand to too many values"


def test_an_alias_to_itself_is_refused() -> None:
    _, problems = check_config("paths: &p\n  include: *p\n")
    assert problems


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    config, problems = check_config(text)
    assert (config is None) == bool(problems)


def test_base_file_is_found_under_either_name_and_yml_wins() -> None:
    assert find_config(DictTree({"a.py": ""})) is None
    assert find_config(DictTree({".github/pitstop.yaml": ""})) == ".github/pitstop.yaml"
    both = DictTree({".github/pitstop.yaml": "", ".github/pitstop.yml": "goal: memory"})
    assert read_config(both).goal == "memory"


def test_a_file_that_is_not_text_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"^\.github/pitstop\.yml: binary; mend"):
        read_config(DictTree({".github/pitstop.yml": b"\0"}))


def test_shipped_schema_is_fresh() -> None:
    shipped = resources.files("pitstop.bot.schemas").joinpath("config.schema.json").read_text()
    assert json.loads(shipped) == config_schema(), "run `make docs`"


@pytest.mark.parametrize("text", ["", FULL, "gaol: 1\n", "nodes: 0\n", "goal: fast\n"])
def test_schema_and_reader_agree(text: str) -> None:
    config, _ = check_config(text)
    data = config_text.read(text).data
    schema = typing.cast(dict[str, typing.Any], config_schema())
    valid = jsonschema.Draft202012Validator(schema).is_valid(data)
    assert valid == (config is not None)


def test_every_key_explains_itself() -> None:
    schema = config_schema()
    for section in (schema, *schema["$defs"].values()):
        for name, about in section["properties"].items():
            assert about.get("description") or "$ref" in about, name
