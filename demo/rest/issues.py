"""Issues, conversation comments, labels and reactions."""

from __future__ import annotations

from demo import limits
from demo.conversation import add_comment, ensure_label
from demo.rest.call import Call, operation
from demo.shapes_issue import comment_json, issue_json, label_json, reaction_json
from demo.state import Comment, Issue, Label, Reaction
from demo.wire import Answer, Refusal, not_found, validation_failed

CONVERSATION = ("issues", "pull_requests")


def _found(call: Call) -> tuple[Issue, Comment]:
    number = int(call.words["comment_id"])
    for issue in call.repo.issues.values():
        for comment in issue.comments:
            if comment.id == number:
                return issue, comment
    raise not_found()


def _shown(call: Call, issue: Issue, comment: Comment) -> dict[str, object]:
    return comment_json(call.links, call.repo, issue, comment)


def _may_edit(call: Call, comment: Comment) -> None:
    if comment.user is not call.user and call.role not in ("write", "maintain", "admin"):
        raise Refusal(403, "Must have admin rights to Repository.")


@operation("issues/get")
def get_issue(call: Call) -> Answer:
    """An issue or pull request as an issue."""
    return Answer(200, issue_json(call.links, call.repo, call.issue))


@operation("issues/update", needs=CONVERSATION)
def update_issue(call: Call) -> Answer:
    """Change title, body, state or labels."""
    issue, data = call.issue, call.data
    limits.check_length("Issue", "title", data.get("title"), limits.TITLE_CHARACTERS)
    limits.check_body("Issue", data.get("body") or "")
    issue.title = data.get("title") or issue.title
    issue.body = data.get("body", issue.body)
    if "labels" in data:
        issue.labels = [ensure_label(call.world, call.repo, _name(it)) for it in data["labels"]]
    if state := data.get("state"):
        issue.state = state
        issue.closed = call.world.now() if state == "closed" else None
    issue.updated = call.world.now()
    return Answer(200, issue_json(call.links, call.repo, issue))


def _name(label: str | dict[str, str]) -> str:
    return label if isinstance(label, str) else label.get("name", "")


@operation("issues/list-comments")
def list_comments(call: Call) -> Answer:
    """The conversation, oldest first."""
    issue = call.issue
    return call.page(issue.comments, lambda comment: _shown(call, issue, comment))


@operation("issues/list-comments-for-repo")
def list_all_comments(call: Call) -> Answer:
    """The conversations of the whole repository, oldest first."""
    found = [(issue, c) for issue in call.repo.issues.values() for c in issue.comments]
    found.sort(key=lambda pair: pair[1].id)
    return call.page(found, lambda pair: _shown(call, *pair))


@operation("issues/create-comment", needs=CONVERSATION)
def create_comment(call: Call) -> Answer:
    """Say something in a conversation."""
    issue, body = call.issue, call.data["body"]
    limits.check_body("IssueComment", body, blank=False)
    by_app = call.token is not None and call.token.kind == "installation"
    comment = add_comment(call.world, issue, call.user, body, by_app=by_app)
    call.announce("issue_comment", "created", call.repo, issue=issue, comment=comment)
    shown = _shown(call, issue, comment)
    return Answer(201, shown, {"location": str(shown["url"])})


@operation("issues/get-comment")
def get_comment(call: Call) -> Answer:
    """One comment."""
    return Answer(200, _shown(call, *_found(call)))


@operation("issues/update-comment", needs=CONVERSATION)
def update_comment(call: Call) -> Answer:
    """Change a comment's text."""
    issue, comment = _found(call)
    _may_edit(call, comment)
    limits.check_body("IssueComment", call.data["body"], blank=False)
    comment.body, comment.updated = call.data["body"], call.world.now()
    call.announce("issue_comment", "edited", call.repo, issue=issue, comment=comment)
    return Answer(200, _shown(call, issue, comment))


@operation("issues/delete-comment", needs=CONVERSATION)
def delete_comment(call: Call) -> Answer:
    """Delete a comment."""
    issue, comment = _found(call)
    _may_edit(call, comment)
    issue.comments.remove(comment)
    return Answer(204)


# Labels


@operation("issues/list-labels-for-repo")
def list_repo_labels(call: Call) -> Answer:
    """The labels of a repository."""
    repo = call.repo
    return call.page(repo.labels, lambda label: label_json(call.links, repo, label))


@operation("issues/create-label", needs=CONVERSATION)
def create_label(call: Call) -> Answer:
    """A new label; its name must be new too, whatever the case."""
    name, data = call.data["name"], call.data
    if any(label.name.lower() == name.lower() for label in call.repo.labels):
        error = {"resource": "Label", "code": "already_exists", "field": "name"}
        raise Refusal(422, "Validation Failed", errors=[error])
    limits.check_length("Label", "name", name, limits.LABEL_CHARACTERS)
    description, most = data.get("description"), limits.LABEL_DESCRIPTION_CHARACTERS
    limits.check_length("Label", "description", description, most)
    color = data.get("color", "ededed")
    if len(color) != 6 or any(digit not in "0123456789abcdefABCDEF" for digit in color):
        raise validation_failed("Label", "color", "color is invalid", "invalid")
    label = Label(call.world.next_id(), name, color, description)
    call.repo.labels.append(label)
    return Answer(201, label_json(call.links, call.repo, label))


@operation("issues/get-label")
def get_label(call: Call) -> Answer:
    """A label by its name."""
    for label in call.repo.labels:
        if label.name.lower() == call.words["name"].lower():
            return Answer(200, label_json(call.links, call.repo, label))
    raise not_found()


@operation("issues/list-labels-on-issue")
def list_issue_labels(call: Call) -> Answer:
    """The labels of an issue."""
    repo = call.repo
    return call.page(call.issue.labels, lambda label: label_json(call.links, repo, label))


def _wanted_labels(call: Call) -> list[Label]:
    """The labels of a request: `{"labels": [...]}`, or the bare array that clients also send."""
    data = call.data
    names = data if isinstance(data, list) else data.get("labels", [])
    return [ensure_label(call.world, call.repo, _name(name)) for name in names]


@operation("issues/add-labels", needs=CONVERSATION)
def add_labels(call: Call) -> Answer:
    """Add labels to an issue, making those the repository does not have."""
    issue = call.issue
    issue.labels += [label for label in _wanted_labels(call) if label not in issue.labels]
    return Answer(200, [label_json(call.links, call.repo, label) for label in issue.labels])


@operation("issues/set-labels", needs=CONVERSATION)
def set_labels(call: Call) -> Answer:
    """Replace an issue's labels."""
    issue = call.issue
    issue.labels = _wanted_labels(call)
    return Answer(200, [label_json(call.links, call.repo, label) for label in issue.labels])


@operation("issues/remove-label", needs=CONVERSATION)
def remove_label(call: Call) -> Answer:
    """Take a label off an issue."""
    issue, name = call.issue, call.words["name"].lower()
    if all(label.name.lower() != name for label in issue.labels):
        raise Refusal(404, "Label does not exist")
    issue.labels = [label for label in issue.labels if label.name.lower() != name]
    return Answer(200, [label_json(call.links, call.repo, label) for label in issue.labels])


# Reactions


def _commented(call: Call) -> Comment:
    """The comment that a reaction is about: in a conversation or on code."""
    if "/pulls/comments/" not in call.request.path:
        return _found(call)[1]
    number = int(call.words["comment_id"])
    for _, pull in call.repo.pulls():
        for comment in pull.review_comments():
            if comment.id == number:
                return comment
    raise not_found()


@operation("reactions/list-for-issue-comment")
@operation("reactions/list-for-pull-request-review-comment")
def list_reactions(call: Call) -> Answer:
    """The reactions to a comment."""
    wanted = call.request.query.get("content")
    given = [r for r in _commented(call).reactions if wanted in (None, r.content)]
    return call.page(given, lambda reaction: reaction_json(call.links, reaction))


def _react(call: Call) -> Answer:
    comment, content = _commented(call), call.data["content"]
    for reaction in comment.reactions:
        if reaction.user is call.user and reaction.content == content:
            return Answer(200, reaction_json(call.links, reaction))
    reaction = Reaction(call.world.next_id(), call.user, content, call.world.now())
    comment.reactions.append(reaction)
    return Answer(201, reaction_json(call.links, reaction))


@operation("reactions/create-for-issue-comment", needs=CONVERSATION)
def react_to_comment(call: Call) -> Answer:
    """React to a comment in a conversation: 201 when new, 200 when it was there."""
    return _react(call)


@operation("reactions/create-for-pull-request-review-comment", needs=["pull_requests"])
def react_to_review_comment(call: Call) -> Answer:
    """React to a comment on code."""
    return _react(call)


def _unreact(call: Call) -> Answer:
    comment, number = _commented(call), int(call.words["reaction_id"])
    if all(reaction.id != number for reaction in comment.reactions):
        raise not_found()
    comment.reactions = [reaction for reaction in comment.reactions if reaction.id != number]
    return Answer(204)


@operation("reactions/delete-for-issue-comment", needs=CONVERSATION)
def delete_comment_reaction(call: Call) -> Answer:
    """Take a reaction back."""
    return _unreact(call)


@operation("reactions/delete-for-pull-request-comment", needs=["pull_requests"])
def delete_review_comment_reaction(call: Call) -> Answer:
    """Take a reaction back."""
    return _unreact(call)
