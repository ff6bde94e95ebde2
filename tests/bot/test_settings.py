from __future__ import annotations

from pathlib import Path

import pytest

from pitstop.bot.settings import INPUTS, OUTPUTS, read_settings
from pitstop.rules.finding import UserError

ENVIRONMENT = {
    "INPUT_GITHUB-TOKEN": "ghs_secret",
    "GITHUB_REPOSITORY": "octocat/train",
    "GITHUB_EVENT_NAME": "pull_request",
    "GITHUB_EVENT_PATH": "/github/workflow/event.json",
    "GITHUB_WORKSPACE": "/github/workspace",
}


def test_least_environment() -> None:
    settings = read_settings(ENVIRONMENT)
    assert settings.api_url == "https://api.github.com"
    assert settings.graphql_url == "https://api.github.com/graphql"
    assert settings.workspace == Path("/github/workspace")
    assert (settings.fail_on, settings.bundle, settings.run_url) == (None, None, None)


def test_enterprise_server() -> None:
    settings = read_settings(
        {
            **ENVIRONMENT,
            "GITHUB_API_URL": "https://git.example.com/api/v3/",
            "GITHUB_SERVER_URL": "https://git.example.com",
            "GITHUB_RUN_ID": "12",
        }
    )
    assert settings.api_url == "https://git.example.com/api/v3"
    assert settings.graphql_url == "https://git.example.com/api/graphql"
    assert settings.run_url == "https://git.example.com/octocat/train/actions/runs/12"


def test_named_graphql_address_wins() -> None:
    settings = read_settings({**ENVIRONMENT, "GITHUB_GRAPHQL_URL": "https://g.example.com/q"})
    assert settings.graphql_url == "https://g.example.com/q"


def test_token_of_the_job_serves_where_none_is_given() -> None:
    environment = {**ENVIRONMENT, "INPUT_GITHUB-TOKEN": "", "GITHUB_TOKEN": "ghs_other"}
    assert read_settings(environment).token == "ghs_other"


def test_token_is_in_no_text() -> None:
    settings = read_settings(ENVIRONMENT)
    assert "ghs_secret" not in f"{settings} {settings!r}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("INPUT_GITHUB-TOKEN", ""),
        ("INPUT_GITHUB-TOKEN", "two words"),
        ("GITHUB_REPOSITORY", ""),
        ("GITHUB_REPOSITORY", "../train"),
        ("GITHUB_EVENT_NAME", " "),
        ("GITHUB_EVENT_PATH", ""),
        ("GITHUB_WORKSPACE", ""),
        ("GITHUB_API_URL", "ftp://x"),
        ("GITHUB_API_URL", "https://"),
        ("GITHUB_API_URL", "https://user@x"),
        ("GITHUB_SERVER_URL", "http://x:port"),
        ("GITHUB_GRAPHQL_URL", "x"),
        ("INPUT_FAIL-ON", "error"),
        ("INPUT_MODE", "optimise"),
        ("INPUT_RUNNER", "ssh"),
        ("INPUT_FOLDER", "../project"),
        ("INPUT_REPORT-FOLDER", "/etc"),
        ("INPUT_REPORT-FOLDER", "a/../../b"),
        ("INPUT_REPORT-FOLDER", "."),
        ("INPUT_TIME-LIMIT", "soon"),
        ("INPUT_TIME-LIMIT", "0"),
        ("INPUT_TIME-LIMIT", "١٢"),
    ],
)
def test_bad_variable_is_named(variable: str, value: str) -> None:
    with pytest.raises(UserError, match=variable):
        read_settings({**ENVIRONMENT, variable: value})


def test_all_bad_variables_are_named_at_once() -> None:
    with pytest.raises(UserError) as caught:
        read_settings({"GITHUB_API_URL": "nowhere"})
    words = str(caught.value)
    for variable in (*ENVIRONMENT, "GITHUB_API_URL"):
        assert variable in words


def test_bad_token_is_not_shown() -> None:
    with pytest.raises(UserError) as caught:
        read_settings({**ENVIRONMENT, "INPUT_GITHUB-TOKEN": "ghs secret"})
    assert "secret" not in str(caught.value)


def test_every_input_has_an_effect() -> None:
    """Each declared input is read: a value of its own changes the settings or is refused."""
    values = {
        "github-token": "t",
        "mode": "gate",
        "request": "{}",
        "folder": "code",
        "runner": "local",
        "fail-on": "info",
        "bundle": "b",
        "report-folder": "r",
        "time-limit": "5",
    }
    assert {known.name for known in INPUTS} == set(values)
    plain = read_settings(ENVIRONMENT)
    for known in INPUTS:
        environment = {**ENVIRONMENT, known.variable: values[known.name]}
        assert read_settings(environment) != plain, known.name
    assert len(OUTPUTS) == 10
