"""Check runs with annotations, and commit statuses."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from demo import limits
from demo.rest.call import Call, operation
from demo.shapes import Json, repository_json
from demo.shapes_issue import check_json, status_json
from demo.state import CheckRun, Status
from demo.wire import Answer, Refusal, invalid_request, not_found, validation_failed


def _found(call: Call) -> CheckRun:
    number = int(call.words["check_run_id"])
    for check in call.repo.checks:
        if check.id == number:
            return check
    raise not_found()


def _by_app(call: Call) -> None:
    """Check runs are an app's: people's tokens may only read them. Raises Refusal (403)."""
    if call.token is not None and call.token.kind != "installation":
        raise Refusal(403, "You must authenticate via a GitHub App.")


def _time(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise invalid_request(f'"{text}" is not a valid date-time.') from None


def _check_state(data: Json) -> None:
    """`completed` and a conclusion come together. Raises Refusal (422)."""
    completed = data.get("status") == "completed" or data.get("completed_at") is not None
    if completed and data.get("conclusion") is None:
        raise invalid_request(
            'No subschema in "oneOf" matched.',
            '"conclusion" wasn\'t supplied.',
            'For \'properties/status\', "completed" is not a member of ["queued", "in_progress"].',
        )
    if data.get("conclusion") == "stale":
        raise validation_failed("CheckRun", "conclusion", "only GitHub can set stale")


def _check_output(call: Call, data: Json) -> None:
    limits.check_length("CheckRun", "name", data.get("name"), limits.SHORT_CHARACTERS)
    output = data.get("output") or {}
    title, most = output.get("title"), limits.SHORT_CHARACTERS
    limits.check_length("CheckRun", "title", title, most)
    limits.check_bytes("CheckRun", "summary", output.get("summary"))
    limits.check_bytes("CheckRun", "text", output.get("text"))
    for annotation in output.get("annotations", ()):
        _check_annotation(annotation)


def _check_annotation(annotation: dict[str, Any]) -> None:
    start, end = annotation["start_line"], annotation["end_line"]
    columns = annotation.get("start_column"), annotation.get("end_column")
    if start < 1 or end < start:
        message = "end_line must be greater than or equal to start_line"
        raise validation_failed("CheckRun", "annotations", message)
    if start != end and columns != (None, None):
        message = "start_column and end_column are only allowed on a single line"
        raise validation_failed("CheckRun", "annotations", message)
    if annotation["path"].startswith("/") or not annotation["path"]:
        raise validation_failed("CheckRun", "annotations", "path must be relative")
    if not annotation["message"]:
        raise validation_failed("CheckRun", "annotations", "message cannot be blank")
    limits.check_length("CheckRun", "title", annotation.get("title"), limits.SHORT_CHARACTERS)
    for name in ("message", "raw_details"):
        limits.check_bytes("CheckRun", name, annotation.get(name), limits.ANNOTATION_BYTES)


def _apply(check: CheckRun, data: Json, now: float) -> None:
    output = data.get("output") or {}
    check.name = data.get("name", check.name)
    check.external_id = data.get("external_id", check.external_id)
    check.details_url = data.get("details_url", check.details_url)
    check.started = _time(data.get("started_at")) or check.started
    if data.get("conclusion") is not None:
        check.status, check.conclusion = "completed", data["conclusion"]
        check.completed = _time(data.get("completed_at")) or now
    else:
        check.status = data.get("status", check.status)
    check.title = output.get("title", check.title)
    check.summary = output.get("summary", check.summary)
    check.text = output.get("text", check.text)
    # Annotations are added to those of earlier requests; the rest replaces.
    check.annotations += output.get("annotations", [])


@operation("checks/create", needs=["checks"])
def create_check(call: Call) -> Answer:
    """A new check run on a commit."""
    _by_app(call)
    data = call.data
    _check_state(data)
    _check_output(call, data)
    if call.repo.git.resolve(data["head_sha"]) != data["head_sha"]:
        raise Refusal(422, f"No commit found for SHA: {data['head_sha']}")
    now = call.world.now()
    check = CheckRun(
        call.world.next_id(), data["name"], data["head_sha"], "queued", None, now, None
    )
    _apply(check, data, now)
    call.repo.checks.append(check)
    return Answer(201, check_json(call.links, call.repo, check))


@operation("checks/update", needs=["checks"])
def update_check(call: Call) -> Answer:
    """Change a check run, or add annotations to it."""
    _by_app(call)
    check = _found(call)
    _check_state(call.data)
    _check_output(call, call.data)
    _apply(check, call.data, call.world.now())
    return Answer(200, check_json(call.links, call.repo, check))


@operation("checks/get")
def get_check(call: Call) -> Answer:
    """One check run."""
    return Answer(200, check_json(call.links, call.repo, _found(call)))


@operation("checks/list-for-ref")
def list_checks(call: Call) -> Answer:
    """The check runs of a commit: the newest of each name unless `filter=all`."""
    sha, query = call.commit(call.words["ref"]), call.request.query
    found = [check for check in call.repo.checks if check.head_sha == sha]
    if name := query.get("check_name"):
        found = [check for check in found if check.name == name]
    if status := query.get("status"):
        found = [check for check in found if check.status == status]
    if query.get("filter", "latest") == "latest":
        found = list({check.name: check for check in found}.values())
    shown, headers = call.slice(found)
    checks = [check_json(call.links, call.repo, check) for check in shown]
    return Answer(200, {"total_count": len(found), "check_runs": checks}, headers)


@operation("checks/list-annotations")
def list_annotations(call: Call) -> Answer:
    """All annotations of a check run."""
    check = _found(call)
    page = call.links.page(call.repo)

    def shown(annotation: dict[str, Any]) -> Json:
        names = ("start_column", "end_column", "title", "raw_details")
        optional = {name: annotation.get(name) for name in names}
        href = f"{page}/blob/{check.head_sha}/{quote(annotation['path'])}"
        return annotation | optional | {"blob_href": href}

    return call.page(check.annotations, shown)


@operation("repos/create-commit-status", needs=["statuses"])
def create_status(call: Call) -> Answer:
    """A new status on a commit."""
    data, most = call.data, limits.STATUS_DESCRIPTION_CHARACTERS
    limits.check_length("Status", "description", data.get("description"), most)
    limits.check_length("Status", "context", data.get("context"), limits.SHORT_CHARACTERS)
    sha = call.words["sha"]
    if call.repo.git.resolve(sha) != sha:
        raise Refusal(422, f"No commit found for SHA: {sha}")
    status = Status(
        call.world.next_id(),
        sha,
        data["state"],
        data.get("context", "default"),
        data.get("description"),
        data.get("target_url"),
        call.user,
        call.world.now(),
    )
    call.repo.statuses.append(status)
    return Answer(201, status_json(call.links, call.repo, status))


def _statuses(call: Call) -> tuple[str, list[Status]]:
    sha = call.commit(call.words["ref"])
    return sha, [status for status in reversed(call.repo.statuses) if status.sha == sha]


@operation("repos/list-commit-statuses-for-ref")
def list_statuses(call: Call) -> Answer:
    """All statuses of a commit, newest first."""
    _, found = _statuses(call)
    return call.page(found, lambda status: status_json(call.links, call.repo, status))


@operation("repos/get-combined-status-for-ref")
def combined_status(call: Call) -> Answer:
    """The latest status of each context, and what they amount to."""
    sha, found = _statuses(call)
    latest = list({status.context: status for status in reversed(found)}.values())
    states = {status.state for status in latest}
    state = "success" if states == {"success"} else "pending"
    if states & {"failure", "error"}:
        state = "failure"
    url = f"{call.links.repo(call.repo)}/commits/{sha}"
    return Answer(
        200,
        {
            "state": state,
            "statuses": [status_json(call.links, call.repo, status) for status in latest],
            "sha": sha,
            "total_count": len(latest),
            "repository": repository_json(call.links, call.repo),
            "commit_url": url,
            "url": f"{url}/status",
        },
    )
