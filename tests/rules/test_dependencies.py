from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from pitstop.rules.dependencies import pep440, read_pins, read_versions
from pitstop.rules.sources import Sources
from pitstop.rules.tree import DictTree
from pitstop.rules.versions import allows, at_least, meets, possible


def versions(files: dict[str, str]) -> dict[str, str]:
    sources = Sources(DictTree(files))
    return dict(read_versions(sources, sources.tree.paths))


# --- questions to a pin -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pin", "wanted", "answer"),
    [
        ("==4.57.6", "<5", True), (">=4.40", "<5", None), (">=4.49,<4.60", ">=5", False),
        ("~=4.40", "<5", True), ("~=4.40.1", "<4.41", True), ("==5.*", ">=5", True),
        ("==5.*", ">=5.5", None), ("<2.8", ">=2.8", False), ("<=2.8", ">=2.8", None),
        (">2.8", ">=2.8", True), ("==2.8.0+cu128", ">=2.8", True), ("!=4.57.0", "<5", None),
        ("", "<5", None), ("===whatever", "<5", None), ("not a specifier", "<5", None),
        (">=4.55.0,<=5.8.0,!=4.57.0", ">=4.50", True), ("==4.57.6", ">=4.57.6", True),
    ],
)  # fmt: skip
def test_a_pin_answers_yes_no_or_unknown(pin: str, wanted: str, answer: bool | None) -> None:
    assert allows(pin, wanted) is answer


def test_at_least() -> None:
    assert at_least("==2.9.1", "2.8") is True
    assert at_least("<2", "2.8") is False
    assert at_least(">=2", "2.8") is None


def test_requirements_are_asked_by_normalised_name() -> None:
    pins = {"ms-swift": "==3.1"}
    assert meets(pins, "ms_swift>=3") is True
    assert meets(pins, "torch>=2") is None


def test_contradictions_are_impossible() -> None:
    assert not possible(">=5,<4")
    assert possible(">=4,<5")
    assert possible("")


_VERSIONS = st.builds(
    lambda parts: ".".join(map(str, parts)), st.lists(st.integers(0, 12), min_size=1, max_size=3)
)
_CLAUSES = st.builds(
    lambda op, version: op + version, st.sampled_from(["==", ">=", "<=", "<", ">"]), _VERSIONS
)
_PINS = st.lists(_CLAUSES, min_size=1, max_size=2).map(",".join)


@settings(max_examples=150, deadline=None)
@given(_PINS, _CLAUSES, _VERSIONS)
def test_a_sure_answer_is_right_for_every_version(pin: str, wanted: str, version: str) -> None:
    answer = allows(pin, wanted)
    if answer is not None and SpecifierSet(pin).contains(Version(version), prereleases=True):
        assert SpecifierSet(wanted).contains(Version(version), prereleases=True) is answer


# --- where pins are read ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"requirements.txt": "torch==2.6.0\n# x\ntrl >= 0.9 # why\n"},
         {"torch": "==2.6.0", "trl": ">=0.9"}),
        ({"requirements.txt": "-r base.txt\n", "base.txt": "torch<3\n"}, {"torch": "<3"}),
        ({"requirements/gpu.txt": "deepspeed\n"}, {"deepspeed": ""}),
        ({"requirements.txt": "-r requirements.txt\ntorch\n"}, {"torch": ""}),
        ({"requirements.txt": 'torch==1.13; python_version < "3.8"\ntorch==2.1\n'},
         {"torch": "==2.1"}),
        ({"requirements.txt": "git+https://example.org/x/LLaMA-Factory.git@main\n"},
         {"llama-factory": ""}),
        ({"requirements.txt": "transformers @ https://example.org/transformers-5.0.whl\n"},
         {"transformers": ""}),
        ({"requirements.txt": "not a requirement !!\ntorch\n"}, {"torch": ""}),
        ({"setup.py": "from setuptools import setup\nREQ = ['torch>=2.0', 'numpy']\n"
          "setup(install_requires=REQ, extras_require={'d': ['deepspeed==0.16']})\n"},
         {"torch": ">=2.0", "deepspeed": "==0.16"}),
        ({"setup.cfg": "[options]\ninstall_requires =\n  torch>=2\n  trl\n"},
         {"torch": ">=2", "trl": ""}),
        ({"pyproject.toml": '[project]\nname = "x"\ndependencies = ["trl<1"]\n'
          '[project.optional-dependencies]\na = ["vllm==0.11"]\n'
          '[dependency-groups]\ndev = ["peft>=0.18", {include-group = "x"}]\n'},
         {"trl": "<1", "vllm": "==0.11", "peft": ">=0.18"}),
        ({"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.11"\ntorch = "^2.1"\n'
          'trl = {version = "~0.9.4", extras = ["x"]}\n'},
         {"torch": ">=2.1,<3", "trl": ">=0.9.4,<0.10"}),
        ({"environment.yml": "dependencies:\n  - python=3.11\n  - pytorch=2.4.0=py3.11_cuda\n"
          "  - pip:\n    - transformers==4.44.0\n"},
         {"python": "==3.11.*", "torch": "==2.4.0", "transformers": "==4.44.0"}),
        ({"Pipfile": '[packages]\ntorch = "*"\ntrl = ">=0.9"\n'}, {"torch": "", "trl": ">=0.9"}),
        ({"Dockerfile": "FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime\n"
          "RUN pip install --no-cache-dir transformers==4.44 'trl>=0.9' && echo done\n"},
         {"torch": "==2.4.0", "transformers": "==4.44", "trl": ">=0.9"}),
        ({"Dockerfile": "FROM vllm/vllm-openai:v0.6.3\nRUN uv pip install -r x.txt peft\n"},
         {"vllm": "==0.6.3", "peft": ""}),
    ],
)  # fmt: skip
def test_every_kind_of_dependency_file(files: dict[str, str], expected: dict[str, str]) -> None:
    assert versions(files) == expected


@pytest.mark.parametrize(
    "lock",
    [
        {"uv.lock": 'version = 1\n[[package]]\nname = "torch"\nversion = "2.7.1"\n'},
        {"poetry.lock": '[[package]]\nname = "torch"\nversion = "2.7.1"\n'},
        {"Pipfile.lock": '{"default": {"torch": {"version": "==2.7.1"}}}'},
    ],
)
def test_a_lock_file_has_the_last_word(lock: dict[str, str]) -> None:
    assert versions({"requirements.txt": "torch>=2\n", **lock}) == {"torch": "==2.7.1"}


def test_files_at_the_root_speak_together() -> None:
    files = {
        "requirements.txt": "torch>=2.4\n",
        "setup.cfg": "[options]\ninstall_requires = torch<3\n",
    }
    assert set(versions(files)["torch"].split(",")) == {">=2.4", "<3"}


def test_files_at_the_root_precede_those_of_a_folder() -> None:
    files = {"requirements.txt": "torch>=2.4\n", "examples/requirements.txt": "torch==1.13\n"}
    assert versions(files) == {"torch": ">=2.4"}


def test_folders_that_disagree_leave_the_package_without_a_pin() -> None:
    files = {"a/requirements.txt": "torch==2.4\n", "b/requirements.txt": "torch==1.13\n"}
    assert versions(files) == {"torch": ""}


def test_a_contradiction_is_no_pin() -> None:
    files = {"requirements.txt": "torch==2.4\n", "requirements-old.txt": "torch==1.13\n"}
    assert versions(files) == {"torch": ""}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", "[project\n"), ("setup.py", "def (:\n"), ("setup.cfg", "no section\n"),
        ("uv.lock", "= =\n"), ("Pipfile.lock", "[1, 2]"),
        ("poetry.lock", "[[package]]\nname = 1\n"),
        ("pyproject.toml", "project = 3\n"), ("environment.yml", "dependencies: 3\n"),
        ("Dockerfile", "RUN pip install 'never closed\n"), ("README.md", "torch==2.0\n"),
    ],
)  # fmt: skip
def test_broken_and_other_files_pin_nothing(path: str, text: str) -> None:
    assert read_pins(Sources(DictTree({path: text})), path) == ()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("^4.3", ">=4.3,<5"), ("^0.3.1", ">=0.3.1,<0.4"), ("~4.3", ">=4.3,<4.4"), ("*", ""),
        ("4.3.2", "==4.3.2"), ("=2.4", "==2.4.*"), (">=1,<2", ">=1,<2"), ("1 || 2", ""),
        ("~=1.4", "~=1.4"), ("^0.0.3", ">=0.0.3,<0.0.4"),
    ],
)  # fmt: skip
def test_constraints_of_poetry_and_conda(written: str, expected: str) -> None:
    assert pep440(written) == expected
