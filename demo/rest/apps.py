"""Accounts, apps, and the rate limit."""

from __future__ import annotations

from demo.limits import ANONYMOUS
from demo.rest.call import Call, operation
from demo.shapes import Json, profile_json, stamp, user_json
from demo.shapes_issue import app_json
from demo.wire import Answer, Refusal, forbidden, not_found

INSTALLATION = 4711
PERMISSIONS = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "write",
}
# What the root answers with; of these the forge serves only those it spells out below.
ADDRESSES = (
    "current_user_url",
    "current_user_authorizations_html_url",
    "authorizations_url",
    "code_search_url",
    "commit_search_url",
    "emails_url",
    "emojis_url",
    "events_url",
    "feeds_url",
    "followers_url",
    "following_url",
    "gists_url",
    "issue_search_url",
    "issues_url",
    "keys_url",
    "label_search_url",
    "notifications_url",
    "organization_url",
    "organization_repositories_url",
    "organization_teams_url",
    "public_gists_url",
    "repository_search_url",
    "current_user_repositories_url",
    "starred_url",
    "starred_gists_url",
    "user_organizations_url",
    "user_repositories_url",
    "user_search_url",
)


@operation("meta/root")
def root(call: Call) -> Answer:
    """Where things are. Only the addresses that the forge serves lead anywhere."""
    api = call.links.api
    body = {name: f"{api}/{name.removesuffix('_url')}" for name in ADDRESSES}
    body |= {
        "current_user_url": f"{api}/user",
        "rate_limit_url": f"{api}/rate_limit",
        "repository_url": f"{api}/repos/{{owner}}/{{repo}}",
        "user_url": f"{api}/users/{{user}}",
    }
    return Answer(200, body)


@operation("rate-limit/get")
def rate_limit(call: Call) -> Answer:
    """How much may still be asked; asking this costs nothing."""
    who = call.token.user.login if call.token else ANONYMOUS
    now = call.world.now()
    used = call.rates.used(who, now)
    core = {
        "limit": call.rates.hourly,
        "used": used,
        "remaining": max(0, call.rates.hourly - used),
        "reset": call.rates.reset_at(who, now),
    }
    return Answer(200, {"resources": {"core": core, "search": core, "graphql": core}, "rate": core})


@operation("users/get-authenticated")
def get_me(call: Call) -> Answer:
    """The person behind the token; an app's installation is nobody."""
    user = call.user
    if call.token is not None and call.token.kind == "installation":
        raise forbidden()
    return Answer(200, profile_json(call.links, user))


@operation("users/get-by-username")
def get_user(call: Call) -> Answer:
    """An account."""
    user = call.world.users.get(call.words["username"].lower())
    if user is None:
        raise not_found()
    return Answer(200, profile_json(call.links, user))


@operation("apps/get-authenticated")
def get_app(call: Call) -> Answer:
    """The app itself; needs a JWT, which the forge takes unread."""
    _as_app(call)
    return Answer(200, app_json(call.links))


def _as_app(call: Call) -> None:
    scheme, _, value = call.request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or value.count(".") != 2:
        raise Refusal(401, "A JSON web token could not be decoded")


@operation("apps/get-repo-installation")
def get_installation(call: Call) -> Answer:
    """The app's installation on a repository."""
    _as_app(call)
    owner, api = call.repo.owner, call.links.api
    body: Json = {
        "id": INSTALLATION,
        "account": user_json(call.links, owner),
        "repository_selection": "all",
        "access_tokens_url": f"{api}/app/installations/{INSTALLATION}/access_tokens",
        "repositories_url": f"{api}/installation/repositories",
        "html_url": f"{call.links.html}/settings/installations/{INSTALLATION}",
        "app_id": 15368,
        "app_slug": "github-actions",
        "target_id": owner.id,
        "target_type": owner.type,
        "permissions": PERMISSIONS,
        "events": ["pull_request"],
        "created_at": stamp(0),
        "updated_at": stamp(0),
        "single_file_name": None,
        "suspended_by": None,
        "suspended_at": None,
    }
    return Answer(200, body)


@operation("apps/create-installation-access-token")
def create_token(call: Call) -> Answer:
    """A token of the installation, with fewer permissions where asked."""
    _as_app(call)
    if int(call.words["installation_id"]) != INSTALLATION:
        raise not_found()
    wanted = call.data.get("permissions") or PERMISSIONS
    if set(wanted) - set(PERMISSIONS):
        raise Refusal(422, "The permissions requested are not granted to this installation.")
    bot = call.world.user("github-actions[bot]")
    token = call.world.issue_token(bot, wanted)
    expires = stamp(call.world.now() + 3600)
    body = {"token": token.value, "expires_at": expires, "permissions": wanted}
    return Answer(201, body | {"repository_selection": "all"})
