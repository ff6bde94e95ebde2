import json
import typing
from importlib import resources

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.bot import wire
from pitstop.bot.report import Report, ReportedFinding, report_schema
from pitstop.rules.finding import Severity, Unknown, UserError, Value
from pitstop.transforms.patch import Outcome, Refused, Unchanged
from tests.bot.reports import CHANGED, finding, report


@pytest.mark.parametrize("outcome", [CHANGED, Unchanged(), Unchanged("nothing"), Refused("no")])
def test_json_brings_back_the_same_report(outcome: Outcome) -> None:
    original = report(outcome)
    assert Report.from_json(original.to_json()) == original


def scalars() -> st.SearchStrategy[typing.Any]:
    text = st.text(st.characters(codec=None))  # lone surrogates are bytes that were not UTF-8
    return (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | text
    )


@given(scalars() | st.lists(scalars()).map(tuple) | st.text().map(Unknown))
def test_every_value_survives_with_its_type(value: Value) -> None:
    again = Report.from_json(report(value=value).to_json()).findings[0].finding.deciding
    assert again is not None
    assert again.value == value
    assert type(again.value) is type(value)


def test_numbers_json_does_not_know_become_text() -> None:
    text = report(value=float("inf")).to_json()
    assert '"value": "inf"' in text
    json.loads(text, parse_constant=pytest.fail)


def test_written_report_fits_the_shipped_schema() -> None:
    shipped = json.loads(
        resources.files("pitstop.bot.schemas").joinpath("report.schema.json").read_text()
    )
    validator = jsonschema.Draft202012Validator(shipped)
    validator.check_schema(shipped)
    for outcome in (CHANGED, Unchanged(), Refused("no")):
        validator.validate(json.loads(report(outcome).to_json()))


def test_shipped_schema_is_fresh() -> None:
    shipped = resources.files("pitstop.bot.schemas").joinpath("report.schema.json").read_text()
    assert json.loads(shipped) == report_schema(), "run `make docs`"


def test_schema_refuses_what_the_reader_refuses() -> None:
    data = json.loads(report().to_json())
    data["findings"][0]["finding"]["severity"] = "terrible"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, typing.cast(dict[str, typing.Any], report_schema()))
    with pytest.raises(UserError, match=r"findings\[0\]\.finding\.severity: expected one of info"):
        Report.from_json(json.dumps(data))


def test_json_names_the_fingerprint_for_other_tools() -> None:
    data = json.loads(report().to_json())
    assert data["findings"][0]["fingerprint"] == finding().fingerprint


def test_fields_at_their_default_are_left_out() -> None:
    data = json.loads(report().to_json())
    assert "confidence" in data["findings"][0]["finding"]
    assert "condition" not in data["findings"][0]["finding"]["deciding"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not in format 1"),
        ('{"format": 2}', "not in format 1"),
        ('{"format": 1}', "version is missing"),
        ('{"format": 1, "version": 3, "jobs": [], "findings": []}', "version: expected string"),
        ('{"format": 1, "version": "1", "jobs": {}, "findings": []}', "jobs: expected an array"),
        (
            '{"format": 1, "version": "1", "jobs": [4], "findings": []}',
            r"jobs\[0\]: expected an obj",
        ),
        (
            '{"format": 1, "version": "1", "jobs": [], "findings": [], "skipped": [["a"]]}',
            r"skipped\[0\]: expected two items",
        ),
    ],
)
def test_damaged_report_is_refused_in_one_sentence(text: str, word: str) -> None:
    with pytest.raises(UserError, match=word):
        Report.from_json(text)


def test_unknown_keys_of_a_later_version_are_ignored() -> None:
    data = json.loads(report().to_json()) | {"later": 1}
    assert Report.from_json(json.dumps(data)) == report()


def test_worst_counts_only_what_the_change_brought_in() -> None:
    assert report().worst() is None
    new = ReportedFinding(finding(severity=Severity.CRITICAL), Unchanged())
    assert Report("1", (), (new,)).worst() is Severity.CRITICAL


def test_a_type_without_a_place_in_reports_is_our_bug() -> None:
    with pytest.raises(TypeError, match="object has no place"):
        wire.encode(object())
