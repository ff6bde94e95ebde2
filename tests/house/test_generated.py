"""What is generated from the code is committed as it would be generated now."""

import importlib.util
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pitstop.bot.settings import INPUTS, OUTPUTS

ROOT = Path(__file__).parents[2]


def generated() -> dict[Path, str]:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.generated())


def test_generated_files_are_fresh() -> None:
    for path, text in generated().items():
        assert path.read_text() == text, f"{path.name}: run `make docs`"


def test_action_inputs_and_outputs_equal_the_settings() -> None:
    action = YAML(typ="safe").load(ROOT / "action.yml")
    declared = {
        name: (" ".join(about["description"].split()), about["default"])
        for name, about in action["inputs"].items()
    }
    assert declared == {known.name: (known.text, known.default) for known in INPUTS}
    assert {name: about["description"] for name, about in action["outputs"].items()} == OUTPUTS
    assert action["runs"] == {"using": "docker", "image": "Dockerfile"}


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md"], ids=str)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_readme_has_exactly_two_set_up_commands() -> None:
    text = (ROOT / "README.md").read_text()
    section = text.partition("## Set-up")[2].partition("\n## ")[0]
    commands = [line.split("  #")[0].strip() for line in section.splitlines() if "  #" in line]
    assert commands == ["make demo", "make test"]
    assert section.count("```") == 2
