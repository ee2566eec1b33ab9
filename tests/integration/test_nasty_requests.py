"""Requests from hell, to every route of the API: each is refused by a problem document, and none
breaks anything. The caller is a platform admin, so that authorization stops nothing early."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from builders.api_callers import Caller
from builders.api_world import World, a_world, api_routes, methods_of, path_of
from builders.job_builders import a_body
from portal.openapi import openapi_document

pytestmark = pytest.mark.django_db

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")

BODIES: dict[str, bytes] = {
    "NUL": rb'{"name": "\u0000"}',
    "NUL in a key": rb'{"\u0000": 1}',
    "half a surrogate pair": rb'{"name": "\ud800"}',
    "100,000 brackets": b"[" * 100_000,
    "900 deep": b'{"name":' * 900 + b"1" + b"}" * 900,
    "5,000 digits": b'{"name": ' + b"9" * 5000 + b"}",
    "1e400": b'{"name": 1e400}',
    "NaN": b'{"name": NaN}',
    "null": b"null",
    "a list": b"[]",
    "a string": b'"x"',
    "a number": b"-0",
    "duplicate keys": b'{"name": "a", "name": "b"}',
    "10,000 keys": json.dumps({f"k{n}": n for n in range(10_000)}).encode(),
    "a 10 MB string": b'{"name": "' + b"x" * 10_000_000 + b'"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "bad UTF-8": b'{"name": "\xff\xfe"}',
    "binary": bytes(range(256)),
    "a byte order mark": b'\xef\xbb\xbf{"name": "x"}',
    "half an object": b'{"name": ',
    "unclosed quotes": b'"\\"' * 10_000,
    "__proto__": b'{"__proto__": {"x": 1}, "constructor": 1}',
    "a form": b"name=x&name=%00",
}

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**31,
    -(2**31) - 1,
    2**63,
    -(2**63) - 1,
    10**29,
    1.5,
    float("1e308"),
    -0.0,
    "",
    " ",
    "x" * 100_000,
    "\u202ex",
    "１２",
    "x\n",
    "x\t\r",
    "a\u0300" * 50,
    "ﷺ" * 100,
    "=1+1",
    "a|b",
    "$(id)",
    "`id`",
    "x\n#SBATCH --account=other",
    "../../etc",
    "..%2f..%2f",
    "-rf",
    "--uid=0",
    "%00",
    "' OR 1=1 --",
    "ai-company/../rival-lab",
    "/",
    "//",
    "ai-company//research",
    "%",
    "_",
    "*",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-11-21",
    [],
    {},
    [None],
    [[]],
    [{}],
    {"": ""},
    {"$ne": 1},
    ["read"] * 1000,
    "0-999999999",
    "0-1000000:1",
    "0," * 5_000,
    "0-9%",
    [{"job": "0193508e-2f4c-7000-8000-000000000001", "condition": "ended"}] * 100,
    [{"job": 1, "condition": None}],
    {"A": {"B": {"C": 1}}},
    {"BASH_ENV": "x", "a=b": "c", "x\ny": "z"},
]

QUERY_TEXTS = [
    "",
    "%00",
    "abc",
    "%ED%A0%80",
    "%FF%FE",
    "-1",
    "9" * 5000,
    "1e9",
    "１",
    "not-a-uuid",
    "0193508e-2f4c-7000-8000-000000000001",
    "0001-01-01T00:00:00%2B14:00",
    "9999-12-31T23:59:59-14:00",
    "a,b,,",
    "..%2f..%2fetc",
    "%25",
    "a&{name}=b",
    "x" * 6000,
]

#: Good bodies, each of whose fields is replaced in turn.
GOOD: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "session"): {"login": "x", "password": "x"},
    ("POST", "job-views"): {
        "name": "new",
        "parameters": {"state": "running"},
        "share_with": "ai-company/research/nlp",
    },
    ("POST", "job-templates"): {
        "team": "ai-company/research/nlp",
        "name": "new",
        "description": "One GPU.",
        "request": {"gpus": 1},
        "locked": ["gpus"],
    },
    ("POST", "tree/<uuid:tree_node_id>/import"): {
        "format": "yaml",
        "text": "nodes:\n- path: ai-company/new\n  kind: team\n  name: New\n",
        "archive_missing": False,
        "revoke_missing": False,
    },
    ("POST", "tree/<uuid:tree_node_id>/service-accounts"): {
        "username": "ci",
        "name": "CI",
        "role_expires_at": None,
    },
    ("POST", "organizations"): {
        "slug": "new",
        "name": "New",
        "first_administrator": {"username": "eve", "name": "Eve", "email": "eve@example.org"},
        "team": "main",
        "pool": "h100",
        "guaranteed_mgpu": 8_000,
        "currency": "EUR",
        "time_zone": "Europe/Berlin",
    },
    ("POST", "organizations/preview"): {
        "slug": "new",
        "name": "New",
        "invited_administrator": {"email": "eve@example.org", "name": "Eve"},
        "tree": {"format": "csv", "text": "kind,path,name\nteam,new/nlp,NLP\n"},
    },
    ("PATCH", "organizations/<uuid:node_id>"): {"name": "New"},
    ("POST", "departments"): {"parent": "ai-company/research", "slug": "new", "name": "New"},
    ("PATCH", "departments/<uuid:node_id>"): {"name": "New"},
    ("POST", "teams"): {"parent": "ai-company/research", "slug": "new", "name": "New"},
    ("PATCH", "teams/<uuid:node_id>"): {"name": "New"},
    ("POST", "users"): {
        "organization": "ai-company",
        "username": "new",
        "name": "New",
        "kind": "person",
        "password": "correct horse battery staple",
    },
    ("PATCH", "users/<uuid:user_id>"): {"name": "New", "is_active": False},
    ("POST", "role-grants"): {
        "user": "bob@ai-company",
        "role": "team_lead",
        "node": "ai-company/research/nlp",
    },
    ("POST", "device-logins"): {"host": "laptop", "scopes": ["read"], "token_days": 1},
    ("POST", "tokens"): {"name": "new", "scopes": ["read"], "expires_in_days": 1},
    ("POST", "pools"): {"name": "a100", "weight": 500, "description": "x"},
    ("PATCH", "pools/<uuid:pool_id>"): {"weight": 500, "description": "x"},
    ("POST", "clusters"): {
        "name": "second",
        "kind": "local",
        "options": {"root": "/nowhere/second"},
        "is_enabled": True,
    },
    ("PATCH", "clusters/<uuid:cluster_id>"): {"is_enabled": False},
    ("POST", "clusters/check"): {"kind": "local", "options": {"root": "/nowhere/second"}},
    ("POST", "clusters/<uuid:cluster_id>/check"): {"options": {"root": "/nowhere/second"}},
    ("POST", "quotas"): {
        "node": "ai-company/research/nlp",
        "pool": "a10",
        "guaranteed_mgpu": 0,
        "guaranteed_percent": "1.5",
        "borrow_limit_mgpu": 0,
        "lend_limit_mgpu": 0,
        "weight": 1,
        "reason": "because",
    },
    ("PATCH", "quotas/<uuid:quota_id>"): {
        "guaranteed_mgpu": 4000,
        "borrow_limit_mgpu": 0,
        "lend_limit_mgpu": 0,
        "weight": 1,
        "reason": "because",
    },
    ("PATCH", "policy"): {
        "grace_period_s_max": 300,
        "starts_max": 1,
        "reclaims_max": 1,
        "claim_overdue_s": 0,
        "credit_floor_s": 0,
        "reservations_max": 0,
        "reservation_horizon_s": 0,
        "min_run_s": 0,
        "preemptions_max": 1,
        "costly_loss_s": 0,
    },
    ("PATCH", "organizations/<uuid:organization_id>/policy"): {
        "rank": ["ai-company/research"],
        "grace_period_s": 120,
        "fair_share_half_life_s": 3_600,
        "spare_order": "fair_share",
        "min_run_s": 60,
        "preemptions_max": 3,
        "skips_blocked_within_team": False,
        "time_zone": "Europe/Berlin",
    },
    ("POST", "time-limits"): {
        "pool": "h100",
        "default_s": 3_600,
        "longest_s": 86_400,
    },
    ("PATCH", "time-limits/<uuid:limit_id>"): {"default_s": 3_600, "longest_s": 86_400},
    ("POST", "user-caps"): {
        "team": "ai-company/research/nlp",
        "user": "bob",
        "pool": "h100",
        "cap_mgpu": 8_000,
    },
    ("PATCH", "user-caps/<uuid:cap_id>"): {"cap_mgpu": 8_000},
    ("POST", "budget-defaults"): {
        "name": "new",
        "node": "ai-company",
        "measure": "gpu_hours",
        "limit": 1,
        "window": "rolling",
        "rolling_days": 7,
        "policy": "notify",
    },
    ("PATCH", "budget-defaults/<uuid:default_id>"): {"name": "new", "limit": 7},
    ("POST", "priority-classes"): {
        "organization": "ai-company",
        "name": "deadline",
        "order": 7,
        "preempts_within_team": True,
        "preempts_across_teams": True,
        "grace_period_s": 60,
        "team_cap_mgpu": 8_000,
        "price_multiplier_ppm": 1_500_000,
        "description": "x",
    },
    ("PATCH", "priority-classes/<uuid:class_id>"): {
        "order": 7,
        "preempts_within_team": True,
        "preempts_across_teams": True,
        "grace_period_s": 60,
        "team_cap_mgpu": 8_000,
        "price_multiplier_ppm": 1_500_000,
        "description": "x",
        "is_retired": False,
    },
    ("POST", "jobs/<uuid:job_id>/estimate"): {"horizon_s": 3_600},
    ("POST", "jobs/<uuid:job_id>/checkpoints"): {"attempt": 1, "at": "2026-11-21T12:00:00Z"},
    ("POST", "quota-changes"): {
        "edits": [],
        "reason": "because",
        "apply_at": "2027-01-01T00:00:00Z",
        "revert_after_s": 3600,
    },
    ("POST", "reconciliations"): {"cluster": "local", "day": "2026-11-20"},
    ("POST", "rate-cards"): {"organization": "rival-lab", "currency": "EUR"},
    ("POST", "rate-cards/<uuid:card_id>/lines"): {
        "pool": "a10",
        "usage_class": "borrowed",
        "price_nano": 5,
        "start": "2026-01-01T00:00:00Z",
        "end": "2027-01-01T00:00:00Z",
        "ends_current": True,
    },
    ("PATCH", "rate-cards/<uuid:card_id>/lines/<uuid:line_id>"): {"end": "2098-01-01T00:00:00Z"},
    ("POST", "rate-cards/<uuid:card_id>/terms"): {
        "pool": "a10",
        "mode": "commitment",
        "unpaid_ppm": 300_000,
        "minimum_s": 300,
        "start": "2026-01-01T00:00:00Z",
    },
    ("PATCH", "rate-cards/<uuid:card_id>/terms/<uuid:terms_id>"): {"end": "2098-01-01T00:00:00Z"},
    ("POST", "jobs"): a_body(
        name="x",
        pool="h100",
        time_limit_s=60,
        priority_class="normal",
        type="array",
        array="0-3%2",
        environment={"A": "b"},
        is_preemptible=True,
        is_requeueable=True,
        checkpoint_path="/x",
        cluster="local",
        notice_signal="TERM",
        held=False,
        depends_on=[],
    ),
}


@pytest.fixture
def world(settings: Any) -> World:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return a_world()


def send(caller: Caller, method: str, path: str, body: Any = None, **headers: str) -> int:
    """The status of an answer that is JSON if it refuses, in a world that is put back."""
    with transaction.atomic():
        answer = caller.send(method, path, body, **headers)
        transaction.set_rollback(True)
    status: int = answer.status_code
    assert status < 500, (method, path, status)
    if status >= 400:
        assert answer["Content-Type"] == "application/problem+json"
        problem = json.loads(answer.content)
        assert problem["status"] == status
        assert problem["detail"]
        assert len(answer.content) < 20_000, (method, path)
    return status


#: A browser comes here from an identity provider, with parameters of the provider's choice. It is
#: always sent on, to the sign-in page with a sentence where something is wrong.
CALLBACK = "session/callback/<slug:organization_slug>"


def unsafe_routes() -> list[tuple[str, str]]:
    return [
        (method, route)
        for route, view in api_routes().items()
        if hasattr(view, "view_class")
        for method in UNSAFE
        if method in methods_of(view)
    ]


@pytest.mark.parametrize("name", BODIES)
def test_bad_bodies_are_refused_by_every_route(name: str, world: World) -> None:
    root = world.callers["root"]
    for method, route in unsafe_routes():
        status = send(root, method, path_of(route, world), BODIES[name], If_Match='"v1"')
        if method != "DELETE":  # which reads no body
            assert status >= 400, (method, route, status)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "multipart/form-data; boundary=x",
        "multipart/form-data; boundary=" + "x" * 300,
        "application/json; charset=utf-16",
        "application/xml",
        "x" * 8000,
        "application/json;" * 100,
    ],
)
def test_bodies_of_other_types_are_refused_by_every_route(content_type: str, world: World) -> None:
    for caller in (world.callers["root"], Caller({}, Client())):
        for method, route in unsafe_routes():
            if method == "DELETE":
                continue
            with transaction.atomic():
                answer = caller.client.generic(
                    method,
                    "/api/v1/" + path_of(route, world),
                    b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\x00\r\n--x--',
                    content_type=content_type,
                    headers=caller.headers,
                )
                transaction.set_rollback(True)
            assert 400 <= answer.status_code < 500, (method, route)


@pytest.mark.parametrize(("method", "route"), GOOD, ids=lambda value: str(value))
def test_bad_values_in_every_field(method: str, route: str, world: World) -> None:
    root, path = world.callers["root"], path_of(route, world)
    caller = Caller({}, Client()) if route == "session" else root
    for name in GOOD[(method, route)]:
        for value in VALUES:
            send(caller, method, path, {**GOOD[(method, route)], name: value}, If_Match='"v1"')
        short = {key: value for key, value in GOOD[(method, route)].items() if key != name}
        send(caller, method, path, short, If_Match='"v1"')


def described_parameters(paths: dict[str, Any], *, method: str, route: str) -> list[str]:
    """Query parameters that the API's description gives a method of a route."""
    described = "/api/v1/" + "/".join(
        "{" + step.strip("<>").partition(":")[2] + "}" if step.startswith("<") else step
        for step in route.split("/")
    )
    return [
        parameter["name"]
        for parameter in paths[described][method.lower()].get("parameters", [])
        if parameter["in"] == "query"
    ]


def test_query_parameters_that_nobody_reads_are_refused_by_every_route(world: World) -> None:
    """Of every method, and before anything is done. Mutants: what turns the pages of lists was
    taken everywhere; routes that change something took anything."""
    paths = openapi_document()["paths"]
    passed = []
    for route, view in api_routes().items():
        if not hasattr(view, "view_class") or route == CALLBACK:
            continue
        for method in methods_of(view):
            known = described_parameters(paths, method=method, route=route)
            for name in {"limit", "cursor", "format", "surprise", "Limit"} - set(known):
                with transaction.atomic():
                    answer = world.callers["root"].send(
                        method, f"{path_of(route, world)}?{name}=1", None
                    )
                    transaction.set_rollback(True)
                pointers = [error.get("pointer") for error in answer.json().get("errors", [])]
                if (answer.status_code, pointers) != (400, [f"/{name}"]):
                    passed.append((method, route, name, answer.status_code))
    assert passed == []


def test_bad_values_in_every_query_parameter(world: World) -> None:
    paths = openapi_document()["paths"]
    root = world.callers["root"]
    asked = 0
    for route, view in api_routes().items():
        if not hasattr(view, "view_class") or "GET" not in methods_of(view) or route == CALLBACK:
            continue
        names = described_parameters(paths, method="GET", route=route)
        path = path_of(route, world)
        assert send(root, "GET", path + "?unknown=x") >= 400
        for name in names:
            for text in QUERY_TEXTS:
                send(root, "GET", f"{path}?{name}=" + text.replace("{name}", name))
                asked += 1
    assert asked > 800


@pytest.mark.parametrize(
    "step", ["..%2f", "%00", "x" * 6000, "0" * 36, "-", "%ED%A0%80", "{}", "1;drop", "%2e%2e/x"]
)
def test_bad_ids_in_every_path(step: str, world: World) -> None:
    root = world.callers["root"]
    for route in api_routes():
        if "<" in route and route != CALLBACK:
            path = route.partition("<")[0] + step
            for method in ("GET", "PATCH", "DELETE", "POST"):
                # Codes of machines are shown to browsers alone, and tokens are refused first.
                refused = {403, 404, 405} if route.startswith("device-logins/") else {404}
                assert send(root, method, path) in refused, (method, path[:60])


@pytest.mark.parametrize(
    "headers",
    [
        {"Idempotency_Key": ""},
        {"Idempotency_Key": "a b"},
        {"Idempotency_Key": "é"},
        {"Idempotency_Key": "x" * 8000},
        {"If_Match": "*"},
        {"If_Match": "x" * 8000},
        {"If_Match": '"v99999999999999999999"'},
        {"Authorization": "Bearer " + "x" * 8000},
        {"Authorization": "Bearer \x00"},
        {"Authorization": "é" * 100},
        {"X_Request_ID": "x" * 8000},
        {"X_Request_ID": "a\x00b"},
        {"Accept": "text/html"},
        {"Accept": "x" * 8000},
        {"Accept": "application/json; version=" + "9" * 500},
        {"X_CSRFToken": "x" * 8000, "Cookie": "session=" + "x" * 4000 + "; csrftoken=\x00"},
        {"Cookie": "session=%00"},
        {"Host": "evil.example"},
        {"Origin": "null"},
        {"X_HTTP_Method_Override": "DELETE"},
    ],
    ids=lambda headers: next(iter(headers)) + " " + str(len(str(headers))),
)
def test_bad_headers(headers: dict[str, str], world: World) -> None:
    for route in ("session", "tokens", "users", "quotas/<uuid:quota_id>"):
        for method in ("GET", "POST", "PATCH", "DELETE"):
            with transaction.atomic():
                answer = world.callers["root"].send(
                    method, path_of(route, world), None if method == "GET" else {}, **headers
                )
                transaction.set_rollback(True)
            assert answer.status_code < 500, (method, route)


def test_rare_methods_on_every_route(world: World) -> None:
    for route in api_routes():
        for method in ("HEAD", "OPTIONS", "TRACE", "PROPFIND", "get"):
            answer = world.callers["root"].send(method, path_of(route, world))
            assert answer.status_code < 500, (method, route)
