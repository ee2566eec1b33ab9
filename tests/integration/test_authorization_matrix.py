"""Every route of the API, every method, every kind of caller: what each of them is answered.

The routes come from the URL resolver. One that is not in the table fails the test, and so does a
method that a view has and the table has not; a method that a view has not is 405 for everybody
who is known. So nobody adds an endpoint without saying who may use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from audit.models import AuditEvent
from builders.api_callers import a_token, with_secret
from builders.api_world import ACTORS, METHODS, World, a_world, api_routes, methods_of, path_of
from builders.job_builders import a_body
from builders.row_security import Keys, digest_of_rows, keys_hidden_from, switch_filters_off
from portal.openapi import openapi_document
from tenants.access import Actor

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Case:
    """One route and method: the request that everybody sends and the status that each is answered.

    `statuses` are in the order of ACTORS.
    """

    statuses: str
    body: Callable[[World], Any] = lambda world: None
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)


def a_case(statuses: str, body: Any = None, query: str = "", **headers: str) -> Case:
    """A case whose body is the same in every world, unless it is a function of it."""
    return Case(statuses, body if callable(body) else lambda world: body, query, headers)


#: Everybody who is known is answered; what the answer holds is cut to them.
CUT_TO_ALL = "401 200 200 200 200 200 200 200 200 200 200"
NO_CSRF_TOKEN = "403 403 403 403 403 403 403 403 403 403 403"
NO_TOKEN = "401 403 403 403 403 403 403 403 403 403 403"
#: Everybody of the organization, and platform admins.
MEMBERS = "401 200 200 200 200 200 200 200 200 200 404"
PLATFORM_ADMIN_201 = "401 201 403 403 403 403 403 403 403 403 403"
PLATFORM_ADMIN_202 = "401 202 403 403 403 403 403 403 403 403 403"
PLATFORM_ADMIN_200 = "401 200 403 403 403 403 403 403 403 403 403"
#: Who builds below research: its admin and those above.
BUILDS_201 = "401 201 201 201 403 403 403 403 403 403 404"
#: Who manages nlp's quota.
MANAGES_NLP_200 = "401 200 200 200 403 200 403 403 403 403 404"
#: A draft that sets nlp's quota does not exist for anybody who manages no quota there.
READS_DRAFT_OF_NLP_200 = "401 200 200 200 404 200 404 404 404 404 404"
HOOK_200 = "401 200 200 200 404 200 404 404 404 404 404"
DAY = "?start=2026-11-20T00:00:00Z&end=2026-11-21T00:00:00Z"
OF_NLP = "?node=ai-company/research/nlp&pool=h100"
BUILDS_200 = "401 200 200 200 403 403 403 403 403 403 404"

TABLE: dict[tuple[str, str], Case] = {
    # Session: tokens are no sessions, and nobody signs in without a CSRF token.
    ("GET", "session"): a_case(CUT_TO_ALL),
    ("POST", "session"): a_case(
        "403 409 409 409 409 409 409 409 409 409 409", {"login": "x", "password": "x"}
    ),
    ("POST", "session/second-factor"): a_case(NO_CSRF_TOKEN, {"code": "123456"}),
    ("POST", "session/security-key"): a_case(NO_CSRF_TOKEN),
    ("POST", "session/security-key/confirm"): a_case(NO_CSRF_TOKEN, {"credential": {}}),
    ("DELETE", "session"): a_case("401 409 409 409 409 409 409 409 409 409 409"),
    # Sign-in at identity providers: for strangers, with a CSRF token.
    ("GET", "sign-in-options"): a_case("200 200 200 200 200 200 200 200 200 200 200"),
    ("POST", "session/provider"): a_case(
        "403 409 409 409 409 409 409 409 409 409 409", {"organization": "ai-company"}
    ),
    # Logins of machines begin without credentials, and only browser sessions decide about them.
    ("POST", "device-logins"): a_case(
        "201 409 409 409 409 409 409 409 409 409 409",
        {"host": "laptop", "scopes": ["read"], "token_days": 1},
    ),
    ("POST", "device-logins/token"): a_case(
        "400 409 409 409 409 409 409 409 409 409 409", {"device_code": "x"}
    ),
    ("GET", "device-logins/<slug:user_code>"): a_case(
        "401 403 403 403 403 403 403 403 403 403 403"
    ),
    ("POST", "device-logins/<slug:user_code>/approve"): a_case(
        "401 403 403 403 403 403 403 403 403 403 403"
    ),
    ("POST", "device-logins/<slug:user_code>/refuse"): a_case(
        "401 403 403 403 403 403 403 403 403 403 403"
    ),
    # Without an answer of the provider it leads to the sign-in page.
    ("GET", "session/callback/<slug:organization_slug>"): a_case(
        "302 302 302 302 302 302 302 302 302 302 302"
    ),
    # Those who choose the provider could be anybody: every right of the organization's admin.
    ("GET", "organizations/<uuid:organization_id>/identity-provider"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404"
    ),
    ("PUT", "organizations/<uuid:organization_id>/identity-provider"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404",
        {
            "name": "Login",
            "issuer": "https://8.8.8.8",
            "client_id": "tidegate",
            # A new issuer needs it.
            "client_secret": "a secret of the matrix",
        },
        If_Match='"v1"',
    ),
    ("POST", "organizations/<uuid:organization_id>/identity-provider/test"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404"
    ),
    ("GET", "organizations/<uuid:organization_id>/sign-in-policy"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404"
    ),
    ("PUT", "organizations/<uuid:organization_id>/sign-in-policy"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404",
        {"requires_second_factor": True},
        If_Match='"v0"',
    ),
    ("GET", "organizations/<uuid:organization_id>/group-mappings"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404"
    ),
    ("POST", "organizations/<uuid:organization_id>/group-mappings"): a_case(
        "401 201 201 403 403 403 403 403 403 403 404",
        {"group": "new", "role": "researcher", "node": "ai-company/research/nlp"},
    ),
    ("DELETE", "group-mappings/<uuid:mapping_id>"): a_case(
        "401 204 204 403 403 403 403 403 403 403 404"
    ),
    # SCIM makes people and gives them roles by groups: as for the provider.
    ("GET", "organizations/<uuid:organization_id>/scim"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404"
    ),
    ("PUT", "organizations/<uuid:organization_id>/scim"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404",
        {"external_id_claim": "oid", "adopts_accounts": True},
        If_Match='"v1"',
    ),
    ("GET", "organizations/<uuid:organization_id>/scim/tokens"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404"
    ),
    ("POST", "organizations/<uuid:organization_id>/scim/tokens"): a_case(
        "401 201 201 403 403 403 403 403 403 403 404", {"name": "Okta", "expires_in_days": 30}
    ),
    ("POST", "scim-tokens/<uuid:scim_token_id>/replace"): a_case(
        "401 201 201 403 403 403 403 403 403 403 404", {"overlap_s": 0}
    ),
    ("DELETE", "scim-tokens/<uuid:scim_token_id>"): a_case(
        "401 204 204 403 403 403 403 403 403 403 404"
    ),
    # The tree.
    ("GET", "organizations"): a_case(CUT_TO_ALL),
    ("GET", "organizations/summaries"): a_case(PLATFORM_ADMIN_200),
    ("POST", "organizations/preview"): a_case(PLATFORM_ADMIN_200, {"name": "Third"}),
    ("POST", "organizations"): a_case(
        PLATFORM_ADMIN_201,
        {
            "name": "New",
            "first_administrator": {"username": "eve", "name": "Eve"},
            "pool": "h100",
            "guaranteed_mgpu": 8_000,
        },
    ),
    ("GET", "organizations/<uuid:node_id>"): a_case(MEMBERS),
    ("PATCH", "organizations/<uuid:node_id>"): a_case(
        "401 200 403 403 403 403 403 403 403 403 404", {"name": "New"}
    ),
    ("GET", "departments"): a_case(CUT_TO_ALL),
    ("POST", "departments"): a_case(
        BUILDS_201, {"parent": "ai-company/research", "slug": "new", "name": "New"}
    ),
    ("GET", "departments/<uuid:node_id>"): a_case(MEMBERS),
    ("PATCH", "departments/<uuid:node_id>"): a_case(BUILDS_200, {"name": "New"}),
    ("GET", "teams"): a_case(CUT_TO_ALL),
    ("POST", "teams"): a_case(
        BUILDS_201, {"parent": "ai-company/research", "slug": "new", "name": "New"}
    ),
    ("GET", "teams/<uuid:node_id>"): a_case(MEMBERS),
    ("PATCH", "teams/<uuid:node_id>"): a_case(BUILDS_200, {"name": "New"}),
    # What runs and waits is asked about, so it is said of both.
    ("GET", "tree/<uuid:tree_node_id>/archive"): a_case(BUILDS_200),
    ("POST", "tree/<uuid:tree_node_id>/archive"): a_case(
        BUILDS_200, {"waiting": "wait", "running": "end"}
    ),
    ("POST", "tree/<uuid:tree_node_id>/restore"): a_case(BUILDS_200),
    # Whoever may is told that it has jobs.
    ("DELETE", "tree/<uuid:tree_node_id>"): a_case("401 409 409 409 403 403 403 403 403 403 404"),
    # An administrator of both parents: of nlp's, and of its organization.
    ("GET", "tree/<uuid:tree_node_id>/move"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404", query="?parent=ai-company"
    ),
    # Whoever may is told that nlp's guarantee does not fit there.
    ("POST", "tree/<uuid:tree_node_id>/move"): a_case(
        "401 409 409 403 403 403 403 403 403 403 404", {"parent": "ai-company"}
    ),
    # People.
    ("GET", "users"): a_case(CUT_TO_ALL),
    ("POST", "users"): a_case(
        "401 201 201 403 403 403 403 403 403 403 404",
        {"organization": "ai-company", "username": "new", "name": "New", "kind": "person"},
    ),
    ("GET", "users/<uuid:user_id>"): a_case("401 200 200 200 200 200 200 404 200 404 404"),
    ("PATCH", "users/<uuid:user_id>"): a_case(
        "401 200 200 403 403 403 403 404 403 404 404", {"is_active": False}
    ),
    ("DELETE", "users/<uuid:user_id>"): a_case("401 409 409 403 403 403 403 404 403 404 404"),
    ("GET", "users/<uuid:user_id>/deactivate"): a_case(
        "401 200 200 403 403 403 403 404 403 404 404"
    ),
    ("POST", "users/<uuid:user_id>/deactivate"): a_case(
        "401 200 200 403 403 403 403 404 403 404 404", {"waiting": "wait", "running": "end"}
    ),
    # The tree of nlp as a file, for who manages its members.
    ("GET", "tree/<uuid:tree_node_id>/export"): a_case(MANAGES_NLP_200),
    ("POST", "tree/<uuid:tree_node_id>/import"): a_case(
        MANAGES_NLP_200,
        {"format": "csv", "text": "kind,path,name\nteam,ai-company/research/nlp,nlp\n"},
        "?dry_run=true",
    ),
    # Members of nlp, for who manages them or reads its audit log.
    ("GET", "tree/<uuid:tree_node_id>/members"): a_case(
        "401 200 200 200 403 200 403 403 200 403 404"
    ),
    ("GET", "tree/<uuid:tree_node_id>/member-totals"): a_case(
        "401 200 200 200 403 200 403 403 200 403 404"
    ),
    # Invitations to nlp, for who manages its members.
    ("GET", "tree/<uuid:tree_node_id>/invitations"): a_case(MANAGES_NLP_200),
    ("POST", "tree/<uuid:tree_node_id>/invitations"): a_case(
        "401 201 201 201 403 201 403 403 403 403 404",
        {"email": "eve@example.org", "role": "researcher"},
    ),
    # New service accounts of nlp, for who manages its members.
    ("POST", "tree/<uuid:tree_node_id>/service-accounts"): a_case(
        "401 201 201 201 403 201 403 403 403 403 404", {"username": "ci"}
    ),
    ("POST", "invitations/<uuid:invitation_id>/resend"): a_case(
        "401 200 200 200 404 200 404 404 404 404 404"
    ),
    ("DELETE", "invitations/<uuid:invitation_id>"): a_case(
        "401 204 204 204 404 204 404 404 404 404 404"
    ),
    ("GET", "roles"): a_case(CUT_TO_ALL),
    ("GET", "role-grants"): a_case(CUT_TO_ALL),
    ("POST", "role-grants"): a_case(
        "401 201 201 201 403 201 403 404 403 404 404",
        {"user": "bob@ai-company", "role": "team_lead", "node": "ai-company/research/nlp"},
    ),
    ("GET", "role-grants/<uuid:grant_id>"): a_case("401 200 200 200 404 200 200 404 200 404 404"),
    ("PATCH", "role-grants/<uuid:grant_id>"): a_case(
        "401 200 200 200 404 200 403 404 403 404 404",
        {"expires_at": "2199-01-01T00:00:00Z"},
        If_Match='"v1"',
    ),
    ("DELETE", "role-grants/<uuid:grant_id>"): a_case(
        "401 204 204 204 404 204 403 404 403 404 404"
    ),
    ("GET", "tokens"): a_case(CUT_TO_ALL),
    ("POST", "tokens"): a_case(
        "401 201 201 201 201 201 201 201 201 201 201",
        {"name": "new", "scopes": ["read"], "expires_in_days": 1},
    ),
    # The session is bob's. Those who manage a person end sessions.
    ("GET", "sessions"): a_case(CUT_TO_ALL),
    ("POST", "sessions/end"): a_case(CUT_TO_ALL, {}),
    ("DELETE", "sessions/<uuid:session_id>"): a_case("401 204 204 404 404 404 204 404 404 404 404"),
    # The second factor is bob's. No token changes it, and those who manage a person reset it.
    ("GET", "second-factors"): a_case(CUT_TO_ALL),
    ("POST", "second-factors/authenticator"): a_case(NO_TOKEN, {}),
    ("POST", "second-factors/authenticator/confirm"): a_case(NO_TOKEN, {"code": "123456"}),
    ("POST", "second-factors/security-key"): a_case(NO_TOKEN, {}),
    ("POST", "second-factors/security-key/confirm"): a_case(
        NO_TOKEN, {"name": "key", "credential": {}}
    ),
    ("POST", "second-factors/recovery-codes"): a_case(NO_TOKEN, {}),
    ("POST", "second-factors/<uuid:factor_id>/remove"): a_case(NO_TOKEN, {}),
    ("POST", "users/<uuid:user_id>/second-factors/reset"): a_case(
        "401 200 200 403 403 403 409 404 403 404 404"
    ),
    # Everybody has an inbox of their own. The notice is bob's.
    ("GET", "notices"): a_case(CUT_TO_ALL),
    ("GET", "notices/unread"): a_case(CUT_TO_ALL),
    ("POST", "notices/read"): a_case(CUT_TO_ALL, {}),
    ("GET", "notices/preferences"): a_case(CUT_TO_ALL),
    ("PATCH", "notices/preferences"): a_case(CUT_TO_ALL, {"digest": "daily"}, If_Match='"v1"'),
    ("GET", "notices/mails"): a_case(CUT_TO_ALL),
    ("POST", "notices/<uuid:notice_id>/read"): a_case(
        "401 404 404 404 404 404 200 404 404 404 404"
    ),
    # The announcement is that of nlp. People of its department and its teams read it.
    ("GET", "announcements"): a_case(CUT_TO_ALL),
    ("POST", "announcements"): a_case(
        "401 201 201 201 403 201 403 403 403 403 404",
        {"text": "Rack 4 is moved.", "node": "ai-company/research/nlp"},
    ),
    ("PATCH", "announcements/<uuid:announcement_id>"): a_case(
        "401 200 200 200 404 200 403 403 403 403 404", {"level": "warning"}, If_Match='"v1"'
    ),
    ("DELETE", "announcements/<uuid:announcement_id>"): a_case(
        "401 204 204 204 404 204 403 403 403 403 404"
    ),
    # Everybody reads windows of maintenance; administrators of the platform make them.
    ("GET", "maintenance-windows"): a_case(CUT_TO_ALL),
    ("POST", "maintenance-windows"): a_case(
        "401 201 403 403 403 403 403 403 403 403 403",
        lambda world: {
            "cluster": "local",
            "end": f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
            "reason": "New switches.",
        },
    ),
    ("PATCH", "maintenance-windows/<uuid:maintenance_id>"): a_case(
        "401 200 403 403 403 403 403 403 403 403 403", {"reason": "Other."}, If_Match='"v1"'
    ),
    ("POST", "maintenance-windows/<uuid:maintenance_id>/cancel"): a_case(
        "401 200 403 403 403 403 403 403 403 403 403"
    ),
    ("GET", "maintenance-windows/<uuid:maintenance_id>/jobs"): a_case(CUT_TO_ALL),
    # The webhook is that of nlp, for those who manage its members.
    ("GET", "webhooks"): a_case(CUT_TO_ALL),
    ("POST", "webhooks"): a_case(
        "401 201 201 201 403 201 403 403 403 403 404",
        {
            "name": "chat",
            "kind": "slack",
            "url": "https://hooks.example.org/x",
            "events": ["job_failed"],
            "node": "ai-company/research/nlp",
        },
    ),
    ("PATCH", "webhooks/<uuid:webhook_id>"): a_case(HOOK_200, {"name": "other"}, If_Match='"v1"'),
    ("DELETE", "webhooks/<uuid:webhook_id>"): a_case(HOOK_200.replace("200", "204")),
    ("POST", "webhooks/<uuid:webhook_id>/secret"): a_case(HOOK_200),
    ("POST", "webhooks/<uuid:webhook_id>/test"): a_case(HOOK_200.replace("200", "202")),
    ("GET", "webhooks/<uuid:webhook_id>/deliveries"): a_case(HOOK_200),
    ("POST", "webhook-deliveries/<uuid:webhook_delivery_id>/replay"): a_case(
        HOOK_200.replace("200", "202")
    ),
    # A token of a person is ended by who manages them, and replaced by its owner only.
    ("DELETE", "tokens/<uuid:token_id>"): a_case("401 204 204 404 404 404 204 404 404 404 404"),
    ("POST", "tokens/<uuid:token_id>/rotate"): a_case(
        "401 409 409 404 404 404 201 404 404 404 404", {}
    ),
    # Passwords. Nobody in this world has one, and nobody makes a link for themselves.
    ("POST", "password"): a_case(
        "401 409 409 409 409 409 409 409 409 409 409", {"old_password": "x", "new_password": "y"}
    ),
    ("POST", "users/<uuid:user_id>/password-link"): a_case(
        "401 201 201 403 403 403 409 404 403 404 404"
    ),
    # A link is all that is known of its holder, and this one is none.
    ("POST", "password-links/use"): a_case(
        "404 404 404 404 404 404 404 404 404 404 404", {"secret": "x", "password": "y"}
    ),
    ("GET", "audit-events"): a_case("401 200 200 200 200 403 403 403 200 403 200"),
    # The fleet is the platform's: everybody looks, platform admins change.
    ("GET", "pools"): a_case(CUT_TO_ALL),
    ("POST", "pools"): a_case(PLATFORM_ADMIN_201, {"name": "a100", "weight": 500}),
    ("GET", "pools/<uuid:pool_id>"): a_case(CUT_TO_ALL),
    ("PATCH", "pools/<uuid:pool_id>"): a_case(PLATFORM_ADMIN_200, {"weight": 900}),
    ("DELETE", "pools/<uuid:pool_id>"): a_case("401 409 403 403 403 403 403 403 403 403 403"),
    ("GET", "pools/<uuid:pool_id>/archive"): a_case(PLATFORM_ADMIN_200),
    ("POST", "pools/<uuid:pool_id>/archive"): a_case(
        PLATFORM_ADMIN_200, {"waiting": "wait", "running": "end"}
    ),
    ("POST", "pools/<uuid:pool_id>/restore"): a_case(PLATFORM_ADMIN_200),
    ("GET", "cluster-kinds"): a_case(PLATFORM_ADMIN_200),
    ("GET", "clusters"): a_case(CUT_TO_ALL),
    ("POST", "clusters"): a_case(
        PLATFORM_ADMIN_201,
        {"name": "second", "kind": "local", "options": {"root": "/nowhere/second"}},
    ),
    ("POST", "clusters/check"): a_case(
        PLATFORM_ADMIN_200, {"kind": "local", "options": {"root": "/nowhere/second"}}
    ),
    ("POST", "clusters/<uuid:cluster_id>/check"): a_case(
        PLATFORM_ADMIN_200, {"options": {"root": "/nowhere/second"}}
    ),
    ("GET", "clusters/<uuid:cluster_id>"): a_case(CUT_TO_ALL),
    ("PATCH", "clusters/<uuid:cluster_id>"): a_case(PLATFORM_ADMIN_200, {"is_enabled": False}),
    ("DELETE", "clusters/<uuid:cluster_id>"): a_case("401 409 403 403 403 403 403 403 403 403 403"),
    ("GET", "clusters/<uuid:cluster_id>/archive"): a_case(PLATFORM_ADMIN_200),
    ("POST", "clusters/<uuid:cluster_id>/archive"): a_case(
        PLATFORM_ADMIN_200, {"waiting": "wait", "running": "end"}
    ),
    ("POST", "clusters/<uuid:cluster_id>/restore"): a_case(PLATFORM_ADMIN_200),
    ("GET", "clusters/<uuid:cluster_id>/users"): a_case(PLATFORM_ADMIN_200),
    # The cluster of this world has no users of its own: 400 for who may map them.
    ("PUT", "clusters/<uuid:cluster_id>/users"): a_case(
        "401 400 403 403 403 403 403 403 403 403 403", {"user": "bob@ai-company", "name": "bob"}
    ),
    ("DELETE", "clusters/<uuid:cluster_id>/users/<uuid:mapping_id>"): a_case(
        "401 204 403 403 403 403 403 403 403 403 403"
    ),
    ("GET", "clusters/<uuid:cluster_id>/placements"): a_case(CUT_TO_ALL),
    ("GET", "clusters/<uuid:cluster_id>/quota-pushes"): a_case(PLATFORM_ADMIN_200),
    # The cluster of this world keeps no limits of its own: 400 for who may push to one.
    ("POST", "clusters/<uuid:cluster_id>/quota-pushes"): a_case(
        "401 400 403 403 403 403 403 403 403 403 403", {"kind": "dry_run"}
    ),
    ("GET", "clusters/<uuid:cluster_id>/quota-pushes/<uuid:push_id>"): a_case(PLATFORM_ADMIN_200),
    ("GET", "clusters/<uuid:cluster_id>/accepted-differences"): a_case(PLATFORM_ADMIN_200),
    ("DELETE", "clusters/<uuid:cluster_id>/accepted-differences/<int:difference_id>"): a_case(
        "401 204 403 403 403 403 403 403 403 403 403"
    ),
    ("GET", "nodes"): a_case(CUT_TO_ALL),
    ("GET", "nodes/<uuid:node_id>"): a_case(CUT_TO_ALL),
    ("POST", "nodes/<uuid:node_id>/drain"): a_case(PLATFORM_ADMIN_202, {"reason": "fans"}),
    ("POST", "nodes/<uuid:node_id>/resume"): a_case(PLATFORM_ADMIN_202, {}),
    # Quotas: a guarantee is changed by whom the node above belongs to.
    ("GET", "quotas"): a_case(CUT_TO_ALL, query="?pool=h100"),
    ("POST", "quotas"): a_case(
        "401 201 201 201 403 403 403 403 403 403 404",
        {
            "node": "ai-company/research/nlp",
            "pool": "a10",
            "guaranteed_mgpu": 0,
            "reason": "because",
        },
    ),
    ("GET", "quotas/<uuid:quota_id>"): a_case(MEMBERS),
    ("PATCH", "quotas/<uuid:quota_id>"): a_case(
        "401 200 200 200 403 403 403 403 403 403 404",
        {"guaranteed_mgpu": 4000, "reason": "because"},
        If_Match='"v1"',
    ),
    ("GET", "quotas/<uuid:quota_id>/changes"): a_case(MEMBERS),
    # Planned changes: of the borrow limit of nlp, drafted by its lead.
    ("GET", "quota-changes"): a_case(CUT_TO_ALL),
    ("POST", "quota-changes"): a_case(
        "401 201 201 201 403 201 403 403 403 403 404",
        lambda world: {
            "edits": [{"quota": world.ids["quota_id"], "borrow_limit_mgpu": 0}],
            "reason": "because",
        },
    ),
    ("GET", "quota-changes/<uuid:planned_id>"): a_case(READS_DRAFT_OF_NLP_200),
    ("POST", "quota-changes/<uuid:planned_id>/preview"): a_case(READS_DRAFT_OF_NLP_200, {}),
    # What nobody has seen is stale for who may apply it.
    ("POST", "quota-changes/<uuid:planned_id>/apply"): a_case(
        "401 412 412 412 404 412 404 404 404 404 404", **{"If-Match": '"unseen"'}
    ),
    ("POST", "quota-changes/<uuid:planned_id>/cancel"): a_case(READS_DRAFT_OF_NLP_200),
    ("GET", "priority-classes"): a_case(CUT_TO_ALL),
    ("GET", "priority-classes/<uuid:class_id>"): a_case(MEMBERS),
    ("PATCH", "priority-classes/<uuid:class_id>"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404", {"order": 7}, If_Match='"v1"'
    ),
    ("POST", "priority-classes"): a_case(
        "401 201 201 403 403 403 403 403 403 403 404",
        {"organization": "ai-company", "name": "new", "order": 7},
    ),
    # Jobs of this world are of it, which who may remove it is told.
    ("DELETE", "priority-classes/<uuid:class_id>"): a_case(
        "401 409 409 403 403 403 403 403 403 403 404", If_Match='"v1"'
    ),
    # Time limits: those of nlp, which are its parent's to set.
    ("GET", "time-limits"): a_case(CUT_TO_ALL),
    ("GET", "time-limits/<uuid:limit_id>"): a_case(MEMBERS),
    ("POST", "time-limits"): a_case(
        "401 201 201 201 403 403 403 403 403 403 404",
        {"node": "ai-company/research/vision", "longest_s": 3_600},
    ),
    ("PATCH", "time-limits/<uuid:limit_id>"): a_case(
        BUILDS_200, {"longest_s": 3_600}, If_Match='"v1"'
    ),
    ("DELETE", "time-limits/<uuid:limit_id>"): a_case(
        "401 204 204 204 403 403 403 403 403 403 404", If_Match='"v1"'
    ),
    # Caps for users: those of nlp, which its lead sets.
    ("GET", "user-caps"): a_case(CUT_TO_ALL),
    ("GET", "user-caps/<uuid:cap_id>"): a_case(MEMBERS),
    ("POST", "user-caps"): a_case(
        "401 201 201 201 403 201 403 403 403 403 404",
        {"team": "ai-company/research/nlp", "user": "bob", "cap_mgpu": 8_000},
    ),
    ("PATCH", "user-caps/<uuid:cap_id>"): a_case(MANAGES_NLP_200, {"cap_mgpu": 7}, If_Match='"v1"'),
    ("DELETE", "user-caps/<uuid:cap_id>"): a_case(
        "401 204 204 204 403 204 403 403 403 403 404", If_Match='"v1"'
    ),
    # What holds for all is read by all.
    ("GET", "policy"): a_case(CUT_TO_ALL),
    ("PATCH", "policy"): a_case(PLATFORM_ADMIN_200, {"starts_max": 7}, If_Match='"v1"'),
    ("GET", "organizations/<uuid:organization_id>/policy"): a_case(MEMBERS),
    ("PATCH", "organizations/<uuid:organization_id>/policy"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404", {"min_run_s": 7}, If_Match='"v1"'
    ),
    # Which changes need a second person: read by the organization, changed by its administrators.
    ("GET", "organizations/<uuid:organization_id>/second-person"): a_case(MEMBERS),
    ("PATCH", "organizations/<uuid:organization_id>/second-person"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404", {"stopped_jobs_min": 1}, If_Match='"v1"'
    ),
    # Credits: everybody of the organization sees them, and its administrators switch the bank.
    ("GET", "credits"): a_case(MEMBERS, query="?organization=ai-company&pool=h100"),
    ("GET", "credits/history"): a_case(MEMBERS, query="?team=ai-company/research/nlp&pool=h100"),
    ("GET", "credits/statement"): a_case(MEMBERS, query="?team=ai-company/research/nlp&pool=h100"),
    ("GET", "credits/transfers"): a_case(CUT_TO_ALL),
    # The bank is off: who may transfer is told so.
    ("POST", "credits/transfers"): a_case(
        "401 409 409 409 403 403 403 403 403 403 404",
        {
            "sender": "ai-company/research/nlp",
            "recipient": "ai-company/research/vision",
            "pool": "h100",
            "amount_ugpu_s": 1,
            "reason": "for the deadline",
        },
    ),
    # From nlp to inference, asked for by research_admin. The bank is off: who may is told so.
    ("POST", "credits/transfers/<uuid:transfer_id>/approve"): a_case(
        "401 409 409 403 409 403 403 403 403 403 404", {}
    ),
    ("POST", "credits/transfers/<uuid:transfer_id>/reject"): a_case(
        "401 200 200 200 200 403 403 403 403 403 404", {"note": "not needed"}
    ),
    ("GET", "organizations/<uuid:organization_id>/credit-bank"): a_case(MEMBERS),
    ("PATCH", "organizations/<uuid:organization_id>/credit-bank"): a_case(
        "401 200 200 403 403 403 403 403 403 403 404", {"cap_s": 604_800}, If_Match='"v1"'
    ),
    ("GET", "charge-audits"): a_case(CUT_TO_ALL),
    ("GET", "deliveries"): a_case(CUT_TO_ALL),
    # It waits: whoever may repeat it is told so.
    ("POST", "deliveries/<uuid:delivery_id>/repeat"): a_case(
        "401 409 409 404 404 404 404 409 403 404 404"
    ),
    ("GET", "delivery-schedules"): a_case(CUT_TO_ALL),
    # This world has no target: whoever may name one is told so.
    ("POST", "delivery-schedules"): a_case(
        "401 404 404 403 403 403 403 404 403 403 404",
        {
            "organization": "ai-company",
            "format": "csv",
            "frequency": "monthly",
            "target": "finance",
        },
    ),
    ("DELETE", "delivery-schedules/<uuid:delivery_schedule_id>"): a_case(
        "401 204 204 404 404 404 404 204 403 404 404"
    ),
    ("GET", "delivery-targets"): a_case(CUT_TO_ALL),
    # Exports: those of nlp, for who may see its costs and its jobs.
    ("GET", "exports"): a_case(CUT_TO_ALL),
    ("POST", "exports"): a_case(
        "401 201 201 201 403 201 403 201 201 403 404",
        {
            "format": "csv",
            "node": "ai-company/research/nlp",
            "start": "2026-11-01T00:00:00Z",
            "end": "2026-11-02T00:00:00Z",
        },
    ),
    ("GET", "exports/<uuid:export_id>"): a_case("401 200 200 200 404 200 404 200 200 404 404"),
    # It is not written yet.
    # It is not written yet: whoever may ask for it again is told so.
    ("POST", "exports/<uuid:export_id>/again"): a_case(
        "401 409 409 409 404 409 404 409 409 404 404"
    ),
    ("GET", "exports/<uuid:export_id>/file"): a_case("401 409 409 409 404 409 404 409 409 404 404"),
    # Budgets: that of nlp, for those who see its costs. Those above it and finance change it.
    ("GET", "budgets"): a_case(CUT_TO_ALL),
    ("POST", "budgets"): a_case(
        "401 201 201 201 403 403 403 201 403 403 404",
        {
            "name": "new",
            "node": "ai-company/research/nlp",
            "measure": "gpu_hours",
            "limit": 1,
            "window": "month",
            "policy": "notify",
        },
    ),
    ("GET", "budgets/<uuid:budget_id>"): a_case("401 200 200 200 404 200 404 200 200 404 404"),
    ("PATCH", "budgets/<uuid:budget_id>"): a_case(
        "401 200 200 200 404 403 404 200 403 404 404", {"limit": 7}, If_Match='"v1"'
    ),
    ("DELETE", "budgets/<uuid:budget_id>"): a_case(
        "401 204 204 204 404 403 404 204 403 404 404", If_Match='"v1"'
    ),
    ("GET", "budget-alerts"): a_case(CUT_TO_ALL),
    # Default budgets: that of research. Those who manage quotas there and finance change it.
    ("GET", "budget-defaults"): a_case(CUT_TO_ALL),
    ("POST", "budget-defaults"): a_case(
        "401 201 201 403 403 403 403 201 403 403 404",
        {
            "name": "new",
            "node": "ai-company",
            "measure": "gpu_hours",
            "limit": 1,
            "window": "month",
            "policy": "notify",
        },
    ),
    ("GET", "budget-defaults/<uuid:default_id>"): a_case(
        "401 200 200 200 404 404 404 200 200 404 404"
    ),
    ("PATCH", "budget-defaults/<uuid:default_id>"): a_case(
        "401 200 200 200 404 404 404 200 403 404 404", {"limit": 7}, If_Match='"v1"'
    ),
    ("DELETE", "budget-defaults/<uuid:default_id>"): a_case(
        "401 204 204 204 404 404 404 204 403 404 404", If_Match='"v1"'
    ),
    # Jobs: bob's job in nlp.
    ("GET", "jobs"): a_case(CUT_TO_ALL),
    ("GET", "jobs/export"): a_case(CUT_TO_ALL),
    ("POST", "jobs"): a_case("401 201 201 201 403 201 201 403 403 201 404", a_body(pool="h100")),
    ("GET", "jobs/<uuid:job_id>"): a_case("401 200 200 200 404 200 200 200 200 404 404"),
    ("GET", "jobs/<uuid:job_id>/explanation"): a_case(
        "401 200 200 200 404 200 200 200 200 404 404"
    ),
    ("POST", "jobs/<uuid:job_id>/estimate"): a_case(
        "401 200 200 200 404 200 200 200 200 404 404", {}
    ),
    # What could be asked for instead is for who may ask for it.
    ("POST", "jobs/<uuid:job_id>/alternatives"): a_case(
        "401 200 200 200 404 200 200 403 403 404 404", {}
    ),
    # The request of a job has its script, which its readers may read.
    ("GET", "jobs/<uuid:job_id>/request"): a_case("401 200 200 200 404 200 200 403 403 404 404"),
    ("GET", "jobs/<uuid:job_id>/reasons"): a_case("401 200 200 200 404 200 200 200 200 404 404"),
    ("GET", "jobs/<uuid:job_id>/attempts"): a_case("401 200 200 200 404 200 200 200 200 404 404"),
    ("GET", "jobs/<uuid:job_id>/attempt-costs"): a_case(
        "401 200 200 200 404 200 200 200 200 404 404"
    ),
    ("GET", "jobs/<uuid:job_id>/history"): a_case("401 200 200 200 404 200 200 200 200 404 404"),
    # Metrics are figures of use, for all who see the job.
    ("GET", "jobs/<uuid:job_id>/metrics"): a_case("401 200 200 200 404 200 200 200 200 404 404"),
    # The job has no attempt yet: who may read its log is told so by 404.
    ("GET", "jobs/<uuid:job_id>/logs"): a_case("401 404 404 404 404 404 404 403 403 404 404"),
    ("GET", "jobs/<uuid:job_id>/logs/download"): a_case(
        "401 404 404 404 404 404 404 403 403 404 404"
    ),
    ("GET", "jobs/<uuid:job_id>/logs/search"): a_case(
        "401 404 404 404 404 404 404 403 403 404 404", query="?q=a"
    ),
    ("GET", "jobs/<uuid:job_id>/files"): a_case("401 404 404 404 404 404 404 403 403 404 404"),
    ("GET", "jobs/<uuid:job_id>/files/download"): a_case(
        "401 404 404 404 404 404 404 403 403 404 404", query="?name=a"
    ),
    ("GET", "jobs/<uuid:job_id>/log-summary"): a_case(
        "401 404 404 404 404 404 404 403 403 404 404"
    ),
    # Refused jobs are results, so that everybody who is known is answered.
    ("POST", "job-actions"): a_case(
        CUT_TO_ALL, lambda world: {"action": "hold", "jobs": [world.ids["job_id"]]}
    ),
    ("POST", "job-actions/preview"): a_case(CUT_TO_ALL, {"action": "cancel"}),
    ("POST", "jobs/<uuid:job_id>/cancel"): a_case("401 200 200 200 404 200 200 403 403 404 404"),
    # It does not run: who may requeue it is told of the conflict.
    ("POST", "jobs/<uuid:job_id>/requeue"): a_case("401 409 409 409 404 409 409 403 403 404 404"),
    # It has no time limit: who may extend it is told of the conflict.
    ("POST", "jobs/<uuid:job_id>/extend"): a_case(
        "401 409 409 409 404 409 409 403 403 404 404", {"by_s": 60}
    ),
    ("POST", "jobs/<uuid:job_id>/extension-plan"): a_case(
        "401 409 409 409 404 409 409 403 403 404 404", {"by_s": 60}
    ),
    ("POST", "jobs/<uuid:job_id>/hold"): a_case("401 200 200 200 404 200 200 403 403 404 404"),
    # It is queued already: releasing it changes nothing.
    ("POST", "jobs/<uuid:job_id>/release"): a_case("401 200 200 200 404 200 200 403 403 404 404"),
    # It does not run: who may speak for it is told of the conflict.
    ("POST", "jobs/<uuid:job_id>/checkpoints"): a_case(
        "401 409 409 409 404 409 409 403 403 404 404", {}
    ),
    # Bob's array in nlp: as his job.
    ("GET", "job-arrays/<uuid:array_id>"): a_case("401 200 200 200 404 200 200 200 200 404 404"),
    ("POST", "job-arrays/<uuid:array_id>/cancel"): a_case(
        "401 200 200 200 404 200 200 403 403 404 404"
    ),
    # A template of nlp: for those who submit jobs there, as it has a script. Its leads write it.
    ("GET", "job-templates"): a_case(CUT_TO_ALL),
    ("POST", "job-templates"): a_case(
        "401 201 201 201 403 201 403 403 403 403 404",
        {"team": "ai-company/research/nlp", "name": "new", "request": {"gpus": 1}},
    ),
    ("GET", "job-templates/<uuid:template_id>"): a_case(
        "401 200 200 200 404 200 200 404 404 200 404"
    ),
    ("PATCH", "job-templates/<uuid:template_id>"): a_case(
        "401 200 200 200 404 200 403 404 404 403 404", {"name": "other"}, If_Match='"v1"'
    ),
    ("DELETE", "job-templates/<uuid:template_id>"): a_case(
        "401 204 204 204 404 204 403 404 404 403 404", If_Match='"v1"'
    ),
    # A view of bob that is shared with nlp: for those who see its jobs. Leads delete it, too.
    ("GET", "job-views"): a_case(CUT_TO_ALL),
    ("POST", "job-views"): a_case(
        "401 201 201 201 403 201 201 403 403 201 404",
        {"name": "new", "parameters": {}, "share_with": "ai-company/research/nlp"},
    ),
    ("DELETE", "job-views/<uuid:view_id>"): a_case("401 204 204 204 404 204 204 403 403 403 404"),
    # Bob's schedule in nlp: as his job.
    ("GET", "schedules"): a_case(CUT_TO_ALL),
    ("POST", "schedules"): a_case(
        "401 201 201 201 403 201 201 403 403 201 404",
        {"cron": "0 3 * * *", "request": a_body(pool="h100")},
    ),
    ("GET", "schedules/<uuid:schedule_id>"): a_case("401 200 200 200 404 200 200 200 200 404 404"),
    ("PATCH", "schedules/<uuid:schedule_id>"): a_case(
        "401 200 200 200 404 200 200 403 403 404 404", {"is_suspended": True}
    ),
    ("DELETE", "schedules/<uuid:schedule_id>"): a_case(
        "401 204 204 204 404 204 204 403 403 404 404"
    ),
    ("GET", "schedules/<uuid:schedule_id>/runs"): a_case(
        "401 200 200 200 404 200 200 200 200 404 404"
    ),
    # What a cycle did with one job is for whoever may see the job.
    ("GET", "jobs/<uuid:job_id>/decisions"): a_case("401 200 200 200 404 200 200 200 200 404 404"),
    ("GET", "decisions"): a_case(CUT_TO_ALL),
    ("GET", "today"): a_case(CUT_TO_ALL),
    # Cut to the jobs that they see, for all who see the node.
    ("GET", "unused-resources"): a_case(
        "401 200 200 200 200 200 200 200 200 200 404", query="?node=ai-company/research/nlp"
    ),
    # Totals of nodes are for each member of the organization.
    ("GET", "entitlement"): a_case(MEMBERS, query="?team=ai-company/research/nlp&pool=h100"),
    ("GET", "fair-share"): a_case(MEMBERS, query=OF_NLP),
    ("GET", "node-summaries"): a_case(MEMBERS, query=OF_NLP),
    ("GET", "capacity"): a_case(MEMBERS, query=OF_NLP),
    ("GET", "history/use"): a_case("401 200 200 200 200 200 200 200 200 200 404", query=OF_NLP),
    ("GET", "history/waits"): a_case("401 200 200 200 200 200 200 200 200 200 404", query=OF_NLP),
    ("GET", "history/preemptions"): a_case(
        "401 200 200 200 200 200 200 200 200 200 404", query=OF_NLP
    ),
    ("GET", "history/week"): a_case(
        "401 200 200 200 403 200 403 200 200 403 404", query="?node=ai-company/research/nlp"
    ),
    ("GET", "cycles"): a_case(PLATFORM_ADMIN_200),
    ("GET", "cycles/<uuid:cycle_id>"): a_case(PLATFORM_ADMIN_200),
    ("GET", "scheduler"): a_case(CUT_TO_ALL),
    # Nothing is in quarantine here: who may end one is told of the conflict.
    ("GET", "quarantine"): a_case(CUT_TO_ALL),
    ("DELETE", "quarantine"): a_case("401 409 403 403 403 403 403 403 403 403 403"),
    # Money: the costs of one's subtree; prices are the organization's.
    ("GET", "reports/chargeback"): a_case("401 200 200 200 200 200 403 200 200 403 200", query=DAY),
    ("GET", "reports/chargeback/closed-months"): a_case(
        "401 200 200 200 200 200 403 200 200 403 200", query=DAY
    ),
    ("GET", "reports/chargeback/idle"): a_case(
        "401 200 200 200 200 200 403 200 200 403 200", query=DAY
    ),
    ("GET", "reports/chargeback/moves"): a_case(
        "401 200 200 200 200 200 403 200 200 403 200", query=DAY
    ),
    ("GET", "reports/chargeback/jobs"): a_case(
        "401 200 200 200 403 200 403 200 200 403 404",
        query=DAY + "&node=ai-company/research/nlp",
    ),
    # That a day of a cluster was compared is no secret; whose use it was is.
    ("GET", "reconciliations"): a_case("401 200 200 200 200 200 403 200 200 403 200"),
    ("GET", "reconciliations/<uuid:reconciliation_id>"): a_case(
        "401 200 200 200 200 200 403 200 200 403 200"
    ),
    # That day is not red: who may acknowledge one is told so.
    ("POST", "reconciliations/<uuid:reconciliation_id>/acknowledgement"): a_case(
        "401 409 409 403 403 403 403 409 403 403 409", lambda world: {"reason": "known"}
    ),
    ("POST", "reconciliations"): a_case(
        "401 202 202 403 403 403 403 202 403 403 202",
        lambda world: {"cluster": "local", "day": f"{datetime.now(UTC):%Y-%m-%d}"},
    ),
    ("GET", "organizations/<uuid:organization_id>/periods"): a_case(
        "401 200 200 404 404 404 404 200 200 404 404"
    ),
    ("GET", "organizations/<uuid:organization_id>/periods/<str:month>"): a_case(
        "401 200 200 404 404 404 404 200 200 404 404"
    ),
    # The month is closed already, and has no charges. Whoever may do these acts is told so.
    ("POST", "organizations/<uuid:organization_id>/periods/<str:month>/close"): a_case(
        "401 409 409 404 404 404 404 409 403 404 404", {"reason": "known"}
    ),
    ("GET", "organizations/<uuid:organization_id>/periods/<str:month>/statements"): a_case(
        "401 200 200 404 404 404 404 200 200 404 404"
    ),
    ("POST", "organizations/<uuid:organization_id>/periods/<str:month>/statements"): a_case(
        "401 409 409 404 404 404 404 409 403 404 404", {}
    ),
    ("GET", "organizations/<uuid:organization_id>/accounting-codes"): a_case(
        "401 200 200 404 404 404 404 200 200 404 404"
    ),
    ("POST", "organizations/<uuid:organization_id>/accounting-codes"): a_case(
        "401 200 200 404 404 404 404 200 403 404 404",
        {
            "codes": [
                {
                    "node": "ai-company/research",
                    "kind": "cost_centre",
                    "code": "4711",
                    "start": "2030-01",
                }
            ]
        },
    ),
    ("PATCH", "accounting-codes/<uuid:code_id>"): a_case(
        "401 200 200 404 404 404 404 200 403 404 404", {"end": "2030-02"}
    ),
    ("DELETE", "accounting-codes/<uuid:code_id>"): a_case(
        "401 204 204 404 404 404 404 204 403 404 404"
    ),
    ("GET", "statements/<uuid:statement_id>"): a_case(
        "401 200 200 404 404 404 404 200 200 404 404"
    ),
    ("GET", "statements/<uuid:statement_id>/html"): a_case(
        "401 200 200 404 404 404 404 200 200 404 404"
    ),
    ("GET", "statements/<uuid:statement_id>/pdf"): a_case(
        "401 200 200 404 404 404 404 200 200 404 404"
    ),
    ("POST", "statements/<uuid:statement_id>/credit"): a_case(
        "401 201 201 404 404 404 404 201 403 404 404", {"reason": "wrong unit"}
    ),
    # Adjustments and disputes of nlp. Finance asked for the one, and the lead opened the other.
    ("GET", "adjustments"): a_case(CUT_TO_ALL),
    ("POST", "adjustments"): a_case(
        "401 201 201 403 403 403 403 201 403 403 404",
        {"team": "ai-company/research/nlp", "amount_nano": 5, "reason": "storage"},
    ),
    ("POST", "adjustments/<uuid:adjustment_id>/approve"): a_case(
        "401 200 200 403 404 403 404 403 403 404 404", {}
    ),
    ("POST", "adjustments/<uuid:adjustment_id>/reject"): a_case(
        "401 200 200 403 404 403 404 200 403 404 404", {"note": "twice"}
    ),
    ("GET", "disputes"): a_case(CUT_TO_ALL),
    # The attempt of bob was never used: who may dispute it is told so.
    ("POST", "disputes"): a_case(
        "401 409 409 409 404 409 409 404 404 404 404",
        lambda world: {"attempt": str(world.ids["attempt"]), "reason": "broken"},
    ),
    # Nothing is charged for that attempt now: who may decide is told so.
    ("POST", "disputes/<uuid:dispute_id>/accept"): a_case(
        "401 409 409 403 404 403 404 409 403 404 404", {}
    ),
    ("POST", "disputes/<uuid:dispute_id>/decline"): a_case(
        "401 200 200 403 404 200 404 200 403 404 404", {"note": "it was fine"}
    ),
    ("GET", "organizations/<uuid:organization_id>/adjustment-policy"): a_case(MEMBERS),
    ("PATCH", "organizations/<uuid:organization_id>/adjustment-policy"): a_case(
        "401 200 200 403 403 403 403 200 403 403 404", {"threshold_nano": 5}, If_Match='"v1"'
    ),
    # Requests. Bob asked for more of nlp: its lead and the lead's superiors read that, and the
    # administrators above nlp decide. A stale ETag is told to who may decide.
    ("GET", "requests"): a_case(CUT_TO_ALL),
    ("GET", "requests/counts"): a_case(CUT_TO_ALL),
    ("POST", "requests"): a_case(
        "401 201 201 201 403 201 201 403 403 201 404",
        {
            "kind": "guarantee",
            "node": "ai-company/research/nlp",
            "pool": "h100",
            "amount": 1_000,
            "reason": "a review",
        },
    ),
    ("GET", "requests/<uuid:request_id>"): a_case("401 200 200 200 404 200 200 404 404 404 404"),
    ("POST", "requests/<uuid:request_id>/approve"): a_case(
        "401 412 412 412 404 403 403 404 404 404 404", {}, If_Match='"stale"'
    ),
    # Bob's request is no change that waits for a second person.
    ("POST", "requests/<uuid:request_id>/override"): a_case(
        "401 400 400 400 404 400 400 404 404 404 404", {"reason": "x"}, If_Match='"stale"'
    ),
    ("POST", "requests/<uuid:request_id>/counter"): a_case(
        "401 412 412 412 404 403 403 404 404 404 404", {"amount": 5}, If_Match='"stale"'
    ),
    ("POST", "requests/<uuid:request_id>/reject"): a_case(
        "401 200 200 200 404 403 403 404 404 404 404", {"note": "no"}
    ),
    ("POST", "requests/<uuid:request_id>/withdraw"): a_case(
        "401 403 403 403 404 403 200 404 404 404 404"
    ),
    ("POST", "requests/<uuid:request_id>/comments"): a_case(
        "401 201 201 201 404 201 201 404 404 404 404", {"text": "hello"}
    ),
    ("POST", "requests/<uuid:request_id>/preview"): a_case(
        "401 200 200 200 404 403 403 404 404 404 404", {}
    ),
    # There is no counter-offer, which only bob is told.
    ("POST", "requests/<uuid:request_id>/offers/<int:number>/accept"): a_case(
        "401 403 403 403 404 403 404 404 404 404 404"
    ),
    ("POST", "requests/<uuid:request_id>/offers/<int:number>/decline"): a_case(
        "401 403 403 403 404 403 404 404 404 404 404"
    ),
    ("GET", "organizations/<uuid:organization_id>/export-policy"): a_case(MEMBERS),
    ("PATCH", "organizations/<uuid:organization_id>/export-policy"): a_case(
        "401 200 200 403 403 403 403 200 403 403 404", {"users": "names"}, If_Match='"v1"'
    ),
    ("GET", "rate-cards"): a_case(CUT_TO_ALL),
    # There is one already: who may make one is told of the conflict.
    ("POST", "rate-cards"): a_case(
        "401 409 409 403 403 403 403 409 403 403 404",
        {"organization": "ai-company", "currency": "EUR"},
    ),
    ("POST", "rate-cards/<uuid:card_id>/lines"): a_case(
        "401 201 201 404 404 404 404 201 403 404 404",
        {
            "pool": "a10",
            "usage_class": "borrowed",
            "price_nano": 5,
            "start": "2026-01-01T00:00:00Z",
        },
    ),
    ("PATCH", "rate-cards/<uuid:card_id>/lines/<uuid:line_id>"): a_case(
        "401 200 200 404 404 404 404 200 403 404 404", {"end": "2098-01-01T00:00:00Z"}
    ),
    # That price applies already: who may cancel one is told so.
    ("DELETE", "rate-cards/<uuid:card_id>/lines/<uuid:line_id>"): a_case(
        "401 409 409 404 404 404 404 409 403 404 404"
    ),
    ("POST", "rate-cards/<uuid:card_id>/terms"): a_case(
        "401 201 201 404 404 404 404 201 403 404 404", {"pool": "a10", "mode": "showback"}
    ),
    ("PATCH", "rate-cards/<uuid:card_id>/terms/<uuid:terms_id>"): a_case(
        "401 200 200 404 404 404 404 200 403 404 404", {"end": "2098-01-01T00:00:00Z"}
    ),
    # Those terms apply already: who may cancel some is told so.
    ("DELETE", "rate-cards/<uuid:card_id>/terms/<uuid:terms_id>"): a_case(
        "401 409 409 404 404 404 404 409 403 404 404"
    ),
    ("GET", "rate-cards/<uuid:card_id>/comparison"): a_case(
        "401 200 200 200 200 200 404 200 200 404 404",
        query="?first=2026-11-01T00:00:00Z&second=2026-12-01T00:00:00Z",
    ),
}

#: Served to everybody, signed in or not.
PUBLIC = {"openapi.json", "installation"}


@pytest.fixture
def world() -> World:
    return a_world()


def answered(world: World, actor: str, method: str, path: str, case: Case) -> int:
    """The status that the actor gets, in a world that is put back afterwards.

    A refusal leaves no trace in the audit log, as nothing was done.
    """
    with transaction.atomic():
        before = AuditEvent.objects.count()
        answer = world.callers[actor].send(
            method, path + case.query, case.body(world), **case.headers
        )
        assert answer.status_code < 400 or AuditEvent.objects.count() == before
        transaction.set_rollback(True)
    assert answer.status_code < 500
    status: int = answer.status_code
    return status


def test_every_route_and_method_is_in_the_table_and_nothing_else_is() -> None:
    served = {
        (method, route)
        for route, view in api_routes().items()
        if route not in PUBLIC
        for method in methods_of(view)
    }
    assert served - set(TABLE) == set()
    assert set(TABLE) - served == set()
    assert set(api_routes()) >= PUBLIC


def test_every_row_has_a_status_for_every_actor() -> None:
    assert {len(case.statuses.split()) for case in TABLE.values()} == {len(ACTORS)}


@pytest.mark.parametrize(("method", "route"), TABLE, ids=lambda value: str(value))
def test_everybody_is_answered_as_the_table_says(method: str, route: str, world: World) -> None:
    case = TABLE[(method, route)]
    path = path_of(route, world)
    found = " ".join(str(answered(world, actor, method, path, case)) for actor in ACTORS)
    assert found == case.statuses


#: Routes with which people sign in.
OPEN_TO_NOBODY = {
    *(
        "session",
        "session/second-factor",
        "session/security-key",
        "session/security-key/confirm",
        "session/provider",
        "sign-in-options",
        "password-links/use",
    ),
    *("device-logins", "device-logins/token"),
}
#: A plain view of Django, whose check of CSRF tokens refuses other methods first.
CALLBACK = "session/callback/<slug:organization_slug>"


def test_methods_that_a_view_has_not_are_refused_to_everybody(world: World) -> None:
    for route, view in api_routes().items():
        if route in PUBLIC or route == CALLBACK:
            continue
        for method in set(METHODS) - methods_of(view):
            path = path_of(route, world)
            assert answered(world, "root", method, path, Case("")) == 405, (method, route)
            assert answered(world, "bob", method, path, Case("")) == 405, (method, route)
            # Only there nobody learns what is served.
            status = 405 if route in OPEN_TO_NOBODY else 401
            assert answered(world, "nobody", method, path, Case("")) == status, (method, route)


def test_what_is_public_says_nothing_about_anybody(world: World) -> None:
    for route in PUBLIC:
        answers = [world.callers[actor].get(route) for actor in ACTORS]
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("scopes", [[], ["read"], ["reports"], ["read", "reports"]])
def test_a_token_that_may_only_read_changes_nothing_whoever_owns_it(
    scopes: list[str], world: World
) -> None:
    """But it may make and revoke tokens that may do no more than itself."""
    for actor in ("root", "alice", "bob"):
        caller = with_secret(a_token(getattr(world.cast, actor), scopes)[1])
        narrow = World(world.cast, world.company, world.ids, {actor: caller})
        for (method, route), case in TABLE.items():
            # An estimate is asked for by POST, as it is worked out each time; nothing is changed.
            # A file of charges is the longer form of the report.
            is_question = method == "GET" or route in {"jobs/<uuid:job_id>/estimate", "exports"}
            if not is_question and not route.startswith("tokens"):
                status = answered(narrow, actor, method, path_of(route, world), case)
                assert 400 <= status < 500, (actor, method, route, status)


def test_the_document_of_the_api_names_the_operations_that_need_no_credentials() -> None:
    """Planted: the rule of `webapi.schema` that writes `security: []`."""
    document = openapi_document()
    found = {
        path.removeprefix("/api/v1/")
        for path, operations in document["paths"].items()
        for operation in operations.values()
        if operation["security"] == []
    }
    assert found == {"installation", *OPEN_TO_NOBODY}
    # GET and DELETE of a session need one.
    assert document["paths"]["/api/v1/session"]["get"]["security"] != []


def test_rows_of_others_stay_hidden_when_no_filter_of_the_portal_works(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall: the administrator of the rival organization asks for everything.

    Without the limit of rows the same requests do leak, so the filters are off indeed. Planted: a
    request that is not limited.
    """
    hidden = keys_hidden_from(world.cast.charlie.organization_id)
    with monkeypatch.context() as patch:
        switch_filters_off(patch)
        assert leaks(world, hidden) == []
        patch.setattr(Actor, "limit_rows", lambda self: None)
        leaking = {route.partition("/")[0] for _, route in leaks(world, hidden)}
    assert leaking >= {
        *("jobs", "quotas", "users", "tokens", "teams", "budgets", "requests", "exports"),
        *("statements", "adjustments", "credits", "webhooks", "rate-cards"),
    }


def leaks(world: World, hidden: Keys) -> list[tuple[str, str]]:
    """The routes that tell charlie the key of a hidden row, or let charlie change such a row."""
    found = []
    before = digest_of_rows(hidden)
    keys = set().union(*hidden.values())
    # Code without its checks may break on what it does not find.
    world.callers["charlie"].client.raise_request_exception = False
    for (method, route), case in TABLE.items():
        path = path_of(route, world)
        with transaction.atomic():
            body = case.body(world)
            answer = world.callers["charlie"].send(method, path + case.query, body, **case.headers)
            content = b"".join(answer) if answer.streaming else answer.content
            changed = digest_of_rows(hidden) != before
            transaction.set_rollback(True)
        asked = set(path.split("/")) | set(_UUID.findall(str(body)))
        told = set(_UUID.findall(content.decode(errors="replace")))
        shown = asked if method == "GET" and answer.status_code == 200 else set()
        if changed or (told - asked | shown) & keys:
            found.append((method, route))
    return found


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
