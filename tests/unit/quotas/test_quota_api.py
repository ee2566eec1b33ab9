"""Quotas and priority classes over REST."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from builders.api_callers import Caller, a_token, as_nobody, by_session, by_token
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_department,
    a_pool,
    a_priority_class,
    a_quota,
    a_team,
    a_user,
    an_actor,
    an_organization,
)
from quotas.models import NodeUse, Quota, QuotaChange
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db
REASON = {"reason": "because"}


def caller(node: Node | None, role: Role) -> Caller:
    return by_token(an_actor(node, role).user)


def quota_of(node: Node) -> Quota:
    return Quota.objects.get(node=node)


def nodes_in(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [item["node"] for item in answer.json()["items"]]


def test_a_quota_shows_everything_about_it() -> None:
    company = a_company()
    Quota.objects.filter(node=company.nlp).update(guaranteed_bp=5_000, borrow_limit_mgpu=4_000)
    NodeUse.objects.create(
        node=company.research,
        pool=company.pool,
        in_use_mgpu=20_000,
        protected_mgpu=16_000,
        borrowed_mgpu=4_000,
        lent_mgpu=0,
        available_mgpu=-4_000,
        waiting_mgpu=8_000,
        as_of=NOW,
    )
    lead = caller(company.nlp, Role.TEAM_LEAD)

    answer = lead.get("quotas?pool=h100&subtree=ai-company/research")

    research, nlp, vision = answer.json()["items"]
    assert research == {
        "id": str(quota_of(company.research).pk),
        "node": "ai-company/research",
        "node_kind": "department",
        "node_name": "research",
        "parent": "ai-company",
        "pool": "h100",
        "device": "gpu",
        "guaranteed_mgpu": 16_000,
        "guaranteed_percent": None,
        "borrow_limit_mgpu": None,
        "lend_limit_mgpu": None,
        "weight": 100,
        "version": 1,
        "reserve_mgpu": 0,
        "use": {
            "in_use_mgpu": 20_000,
            "protected_mgpu": 16_000,
            "borrowed_mgpu": 4_000,
            "lent_mgpu": 0,
            "available_mgpu": -4_000,
            "waiting_mgpu": 8_000,
            "as_of": "2026-11-21T12:00:00Z",
        },
        "can_edit": [],
    }
    assert (nlp["guaranteed_percent"], nlp["borrow_limit_mgpu"]) == ("50.00", 4_000)
    assert nlp["reserve_mgpu"] == 8_000
    assert nlp["can_edit"] == ["borrow_limit_mgpu", "lend_limit_mgpu"]
    assert nlp["use"] == {
        "in_use_mgpu": 0,
        "protected_mgpu": 0,
        "borrowed_mgpu": 0,
        "lent_mgpu": 0,
        "available_mgpu": 0,
        "waiting_mgpu": 0,
        "as_of": None,
    }
    assert vision["can_edit"] == []


def test_what_may_be_edited_is_named_as_a_change_names_it() -> None:
    company = a_company()
    admin = caller(company.organization, Role.ORGANIZATION_ADMIN)
    quota = quota_of(company.nlp)
    path = f"quotas/{quota.pk}"
    values = {
        "guaranteed_mgpu": 8_000,
        "guaranteed_percent": "50.00",
        "borrow_limit_mgpu": 4_000,
        "lend_limit_mgpu": 2_000,
        "weight": 50,
    }

    assert admin.get(path).json()["can_edit"] == list(values)

    for name, value in values.items():
        etag = admin.get(path).headers["ETag"]
        changed = admin.patch(path, {name: value, **REASON}, If_Match=etag)
        assert (changed.status_code, changed.json()[name]) == (200, value)


def test_quotas_come_in_tree_order_and_by_filter() -> None:
    company = a_company()
    a_quota(company.organization, a_pool("a100"), 4)
    someone = caller(company.nlp, Role.RESEARCHER)
    tree = [
        "ai-company",
        "ai-company/production",
        "ai-company/production/inference",
        "ai-company/research",
        "ai-company/research/nlp",
        "ai-company/research/vision",
    ]

    assert nodes_in(someone.get("quotas?pool=h100")) == tree
    assert nodes_in(someone.get("quotas")) == ["ai-company", *tree]
    assert nodes_in(someone.get("quotas?pool=a100")) == ["ai-company"]
    assert nodes_in(someone.get("quotas?node=ai-company/research/&pool=h100")) == [tree[3]]
    assert nodes_in(someone.get("quotas?subtree=ai-company/research")) == tree[3:]


def test_pages_follow_one_another_through_the_tree() -> None:
    company = a_company()
    a_quota(company.organization, a_pool("a100"), 4)
    # "res-x" sorts before "research" but after "res" although "-" sorts before "/".
    a_quota(a_department(company.organization, "res"), company.pool, 0)
    a_quota(a_department(company.organization, "res-x"), company.pool, 0)
    someone = caller(company.nlp, Role.RESEARCHER)
    whole = [(i["node"], i["pool"]) for i in someone.get("quotas").json()["items"]]

    found: list[tuple[str, str]] = []
    path = "/api/v1/quotas?limit=2"
    while path:
        body = someone.get(path.removeprefix("/api/v1/")).json()
        assert len(body["items"]) <= 2
        found += [(item["node"], item["pool"]) for item in body["items"]]
        path = body["next"]

    assert found == whole
    assert len(found) == 9


def test_a_list_takes_the_same_queries_for_any_size(django_assert_num_queries: Any) -> None:
    """The token with its owner and their grants, quotas, children, use."""
    company = a_company()
    someone = caller(company.organization, Role.ORGANIZATION_ADMIN)
    someone.get("quotas")  # marks the token as used

    with django_assert_num_queries(4):
        assert len(nodes_in(someone.get("quotas"))) == 6
    for _ in range(30):
        a_quota(a_team(company.research), company.pool, 0)
    with django_assert_num_queries(4):
        assert len(nodes_in(someone.get("quotas"))) == 36


def test_a_change_needs_the_version_that_it_is_based_on() -> None:
    company = a_company()
    admin = caller(company.research, Role.DEPARTMENT_ADMIN)
    path = f"quotas/{quota_of(company.nlp).pk}"
    body = {"guaranteed_mgpu": 6_000, **REASON}

    read = admin.get(path)
    assert read.headers["ETag"] == '"v1"'
    absent = admin.patch(path, body)
    starred = admin.patch(path, body, If_Match="*")
    changed = admin.patch(path, body, If_Match='"v1"')
    stale = admin.patch(path, {**body, "guaranteed_mgpu": 5_000}, If_Match='"v1"')

    assert (absent.status_code, absent.json()["code"]) == (428, "precondition_required")
    assert starred.status_code == 412
    assert changed.status_code == 200
    assert changed.headers["ETag"] == '"v2"'
    assert changed.json() == {
        **read.json(),
        "guaranteed_mgpu": 6_000,
        "version": 2,
        "reserve_mgpu": 6_000,
    }
    assert (stale.status_code, stale.json()["code"]) == (412, "stale_version")
    assert stale.json()["current"] == changed.json()
    assert quota_of(company.nlp).guaranteed_mgpu == 6_000


def test_percentages_limits_and_nulls_are_set_and_cleared() -> None:
    company = a_company()
    admin = caller(company.organization, Role.ORGANIZATION_ADMIN)
    path = f"quotas/{quota_of(company.nlp).pk}"

    first = admin.patch(
        path,
        {"guaranteed_percent": "25", "borrow_limit_mgpu": 500, "lend_limit_mgpu": 0, **REASON},
        If_Match='"v1"',
    ).json()
    second = admin.patch(
        path, {"borrow_limit_mgpu": None, "lend_limit_mgpu": None, **REASON}, If_Match='"v2"'
    ).json()

    shown = ("guaranteed_mgpu", "guaranteed_percent", "borrow_limit_mgpu", "lend_limit_mgpu")
    assert [first[name] for name in shown] == [4_000, "25.00", 500, 0]
    assert [second[name] for name in shown] == [4_000, "25.00", None, None]


def test_a_refusal_names_the_numbers() -> None:
    company = a_company()
    admin = caller(company.organization, Role.ORGANIZATION_ADMIN)

    answer = admin.patch(
        f"quotas/{quota_of(company.research).pk}",
        {"guaranteed_mgpu": 12_000, **REASON},
        If_Match='"v1"',
    )

    assert answer.status_code == 409
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "quota_envelope"
    assert problem["detail"] == (
        "research guarantees 16 GPUs to its teams but would have only 12. Lower nlp or vision "
        "first."
    )
    assert (problem["guaranteed_mgpu"], problem["children_mgpu"]) == (12_000, 16_000)


def test_the_history_is_there_for_everybody_of_the_organization() -> None:
    company = a_company()
    dora = an_actor(company.research, Role.DEPARTMENT_ADMIN, "dora")
    path = f"quotas/{quota_of(company.nlp).pk}"
    for version, gpus in ((1, 7_000), (2, 6_000)):
        by_token(dora.user).patch(
            path, {"guaranteed_mgpu": gpus, "reason": f"to {gpus}"}, If_Match=f'"v{version}"'
        )

    items = caller(company.vision, Role.RESEARCHER).get(f"{path}/changes").json()["items"]

    assert [(item["actor"], item["reason"]) for item in items] == [
        ("dora@ai-company", "to 6000"),
        ("dora@ai-company", "to 7000"),
    ]
    assert (items[0]["before"]["guaranteed_mgpu"], items[0]["after"]["guaranteed_mgpu"]) == (
        7_000,
        6_000,
    )


def test_a_first_quota_is_given_once_for_one_key() -> None:
    company = a_company()
    Quota.objects.filter(node=company.vision).update(guaranteed_mgpu=0)
    team = a_team(company.research, "speech")
    admin = caller(company.research, Role.DEPARTMENT_ADMIN)
    body = {"node": team.display_path, "pool": "h100", "guaranteed_percent": "50"}

    first = admin.post("quotas", body, Idempotency_Key="k1")
    again = admin.post("quotas", body, Idempotency_Key="k1")
    other = admin.post("quotas", {**body, "guaranteed_percent": "10"}, Idempotency_Key="k1")
    twice = admin.post("quotas", body)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first.headers["ETag"] == '"v1"'
    assert first.json()["guaranteed_mgpu"] == 8_000
    assert other.status_code == 422
    assert twice.status_code == 409
    assert QuotaChange.objects.get().reason == "First quota"


def test_a_foreign_organization_sees_nothing_and_changes_nothing() -> None:
    company = a_company()
    other = an_organization("other")
    charlie = caller(other, Role.ORGANIZATION_ADMIN)
    quota = quota_of(company.nlp)
    body = {"lend_limit_mgpu": 0, **REASON}

    assert nodes_in(charlie.get("quotas")) == []
    answers = [
        charlie.get(f"quotas/{quota.pk}"),
        charlie.get(f"quotas/{quota.pk}/changes"),
        charlie.patch(f"quotas/{quota.pk}", body, If_Match='"v1"'),
        charlie.patch(f"quotas/{quota.pk}", body, If_Match="nonsense"),
        charlie.post(
            "quotas", {"node": "ai-company/research", "pool": "h100", "guaranteed_mgpu": 0}
        ),
        charlie.get("quotas?node=ai-company/research"),
        charlie.get("quotas?subtree=ai-company"),
        charlie.get("priority-classes?organization=ai-company"),
    ]
    assert [answer.status_code for answer in answers] == [404] * len(answers)
    absent = charlie.get("quotas?node=no/such/node").json()
    assert absent["detail"] == "There is no 'no/such/node' that you can see."
    assert charlie.get("priority-classes").json()["items"] == []
    assert (quota_of(company.nlp).version, Quota.objects.count()) == (1, 6)


@pytest.mark.parametrize(
    ("role", "where", "weight", "lend"),
    [
        (Role.PLATFORM_ADMIN, None, 200, 200),
        (Role.ORGANIZATION_ADMIN, "organization", 200, 200),
        (Role.DEPARTMENT_ADMIN, "research", 200, 200),
        (Role.DEPARTMENT_ADMIN, "production", 403, 403),
        (Role.TEAM_LEAD, "nlp", 403, 200),
        (Role.TEAM_LEAD, "vision", 403, 403),
        (Role.RESEARCHER, "nlp", 403, 403),
        (Role.FINANCE, "organization", 403, 403),
        (Role.AUDITOR, "organization", 403, 403),
        (Role.SERVICE_ACCOUNT, "nlp", 403, 403),
    ],
)
def test_who_may_change_nlp(role: Role, where: str | None, weight: int, lend: int) -> None:
    company = a_company()
    someone = caller(None if where is None else getattr(company, where), role)
    path = f"quotas/{quota_of(company.nlp).pk}"

    first = someone.patch(path, {"weight": 7, **REASON}, If_Match='"v1"')
    version = quota_of(company.nlp).version
    second = someone.patch(path, {"lend_limit_mgpu": 0, **REASON}, If_Match=f'"v{version}"')

    assert (first.status_code, second.status_code) == (weight, lend)
    quota = quota_of(company.nlp)
    assert (quota.weight, quota.lend_limit_mgpu) == (
        7 if weight == 200 else 100,
        0 if lend == 200 else None,
    )


def test_a_token_cannot_do_more_than_its_scope() -> None:
    company = a_company()
    user = an_actor(company.research, Role.DEPARTMENT_ADMIN).user
    path = f"quotas/{quota_of(company.nlp).pk}"
    body = {"weight": 7, **REASON}

    reading = by_token(user, ["read"])
    assert reading.get(path).json()["can_edit"] == []
    assert reading.patch(path, body, If_Match='"v1"').status_code == 403
    assert by_token(user, ["quotas"]).patch(path, body, If_Match='"v1"').status_code == 200


def test_without_credentials_nothing_is_served() -> None:
    for path in ("quotas", "priority-classes", f"quotas/{uuid4()}"):
        assert as_nobody().get(path).status_code == 401


def test_a_browser_session_works_too() -> None:
    company = a_company()
    browser = by_session(an_actor(company.research, Role.DEPARTMENT_ADMIN).user)
    path = f"quotas/{quota_of(company.nlp).pk}"

    assert browser.patch(path, {"weight": 7, **REASON}, If_Match='"v1"').status_code == 200


def test_priority_classes_are_those_of_ones_organization() -> None:
    company = a_company()
    a_priority_class(company.organization, "low", order=1, grace_period_s=60)
    a_company("other")
    someone = caller(company.nlp, Role.RESEARCHER)

    found = someone.get("priority-classes?organization=ai-company").json()["items"]

    assert [(one["organization"], one["name"], one["order"]) for one in found] == [
        ("ai-company", "normal", 10),
        ("ai-company", "low", 1),
    ]
    assert someone.get("priority-classes").json()["items"] == found
    platform = caller(None, Role.PLATFORM_ADMIN)
    assert len(platform.get("priority-classes").json()["items"]) == 3


NASTY_QUERIES = [
    "colour=red",
    "pool=h100&pool=h100",
    "pool=nope",
    "pool=%00",
    "pool=",
    "limit=0",
    "limit=501",
    "limit=-1",
    "limit=1e3",
    "limit=%D9%A1",
    "cursor=x",
    "cursor=%00",
    "cursor=WyJhIl0",
    "cursor=WzEsMl0",
    "cursor=W1tdLCB7fV0",
    "cursor=" + "A" * 2_000,
]


@pytest.mark.parametrize("query", NASTY_QUERIES)
def test_nasty_queries_are_refused(query: str) -> None:
    company = a_company()

    answer = caller(company.nlp, Role.RESEARCHER).get(f"quotas?{query}")

    assert answer.status_code == 400, answer.content
    assert answer.json()["code"] == "invalid_request"


@pytest.mark.parametrize(
    "path", ["'; DROP TABLE quotas_quota; --", "%", "ai-company/../other", "_"]
)
def test_nasty_paths_are_not_found(path: str) -> None:
    company = a_company()
    someone = caller(company.nlp, Role.RESEARCHER)

    assert (
        someone.client.get("/api/v1/quotas", {"node": path}, headers=someone.headers).status_code
        == 404
    )


HUGE = 10**29
NASTY_BODIES: list[Any] = [
    {},
    {"weight": 5},
    {"weight": 5, "reason": ""},
    {"weight": 5, "reason": "   "},
    {"weight": 5, "reason": "x" * 501},
    {"weight": 5, "reason": 5},
    {"weight": 5, "reason": None},
    {"weight": 0, **REASON},
    {"weight": -1, **REASON},
    {"weight": 1_000_001, **REASON},
    {"weight": 1.0, **REASON},
    {"weight": "5", **REASON},
    {"weight": True, **REASON},
    {"weight": None, **REASON},
    {"guaranteed_mgpu": -1, **REASON},
    {"guaranteed_mgpu": HUGE, **REASON},
    {"guaranteed_mgpu": None, **REASON},
    {"guaranteed_mgpu": [], **REASON},
    {"guaranteed_percent": 50, **REASON},
    {"guaranteed_percent": "100.01", **REASON},
    {"guaranteed_percent": "33.333", **REASON},
    {"guaranteed_percent": "-1", **REASON},
    {"guaranteed_percent": "50%", **REASON},
    {"guaranteed_percent": "٥٠", **REASON},
    {"guaranteed_percent": "50\n", **REASON},
    {"guaranteed_percent": None, **REASON},
    {"guaranteed_percent": "50", "guaranteed_mgpu": 8_000, **REASON},
    {"borrow_limit_mgpu": -1, **REASON},
    {"borrow_limit_mgpu": HUGE, **REASON},
    {"borrow_limit_mgpu": "all", **REASON},
    {"lend_limit_mgpu": -1, **REASON},
    {"lend_limit_mgpu": {}, **REASON},
    {"version": 2, **REASON},
    {"guarantee": 5, **REASON},
    {"weight": 5, "reason": "NUL \x00"},
    {"weight": 5, "reason": "right to left \u202e"},
    b"[]",
    b"null",
    b"{",
    b'{"weight": NaN, "reason": "r"}',
    b'{"weight": 5, "weight": 6, "reason": "r"}',
    b'{"reason": "\\ud800", "weight": 5}',
    b"\xff\xfe",
    b'{"reason": ' + b"[" * 100 + b"]" * 100 + b"}",
]


@pytest.mark.parametrize("body", NASTY_BODIES, ids=lambda body: repr(body)[:50])
def test_nasty_bodies_are_refused_and_change_nothing(body: Any) -> None:
    company = a_company()
    admin = caller(None, Role.PLATFORM_ADMIN)

    answer = admin.patch(f"quotas/{quota_of(company.nlp).pk}", body, If_Match='"v1"')

    assert answer.status_code == 400, answer.content
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert quota_of(company.nlp).version == 1


@pytest.mark.parametrize(
    "change",
    [
        {"node": None},
        {"node": 5},
        {"node": ""},
        {"node": "x" * 2_001},
        {"pool": "nope"},
        {"pool": ["h100"]},
        {"pool": "x" * 64},
        {"guaranteed_mgpu": None},
        {"weight": 0},
        {"extra": 1},
    ],
)
def test_nasty_first_quotas_are_refused(change: dict[str, Any]) -> None:
    company = a_company()
    team = a_team(company.research, "speech")
    body = {"node": team.display_path, "pool": "h100", "guaranteed_mgpu": 0, **change}

    answer = caller(None, Role.PLATFORM_ADMIN).post("quotas", body)

    assert answer.status_code == 400, answer.content
    assert Quota.objects.count() == 6


@pytest.mark.parametrize(
    "tag", ["", "v1", 'W/"v1"', '"v1", "v2"', '"v-1"', '"v٣"', '"1"', '"v1"\n']
)
def test_nasty_etags_are_refused(tag: str) -> None:
    company = a_company()
    path = f"quotas/{quota_of(company.nlp).pk}"
    body = {"weight": 7, **REASON}

    answer = caller(None, Role.PLATFORM_ADMIN).patch(path, body, If_Match=tag)

    # Outer white space is no part of a header's value.
    assert answer.status_code == (200 if tag.strip() == '"v1"' else 412), answer.content


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_other_methods_are_refused(method: str) -> None:
    company = a_company()
    path = f"quotas/{quota_of(company.nlp).pk}"

    assert caller(None, Role.PLATFORM_ADMIN).send(method, path, {}).status_code == 405


def test_a_user_without_any_role_sees_the_tree_but_changes_nothing() -> None:
    company: Company = a_company()
    user = a_user(company.organization)
    _, secret = a_token(user)
    someone = Caller({"Authorization": f"Bearer {secret}"})

    assert len(nodes_in(someone.get("quotas"))) == 6
    answer = someone.patch(
        f"quotas/{quota_of(company.nlp).pk}", {"weight": 7, **REASON}, If_Match='"v1"'
    )
    assert answer.status_code == 403
