"""A new organization works after one step, and is made whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from billing.models import RateCard
from builders.api_callers import as_nobody, by_session, by_token
from builders.browsers import OTHER_PASSWORD, sign_in
from builders.cast import a_cast
from builders.clocks import ClockAt
from builders.job_builders import a_body
from builders.portal_builders import NOW, a_pool
from portal.new_organization import NewOrganization, make_organization
from primitives.errors import InvalidRequest
from quotas.models import OrganizationPolicy, PriorityClass, Quota
from tenants.access import actor_of
from tenants.models import Invitation, Node, PasswordLink, User
from webapi.models import IdempotentAnswer

pytestmark = pytest.mark.django_db

WHOLE: dict[str, Any] = {
    "name": "Blue Whale Institute",
    "first_administrator": {"username": "maria", "name": "Maria Silva"},
    "pool": "a10",
    "guaranteed_mgpu": 64_000,
    "currency": "EUR",
    "time_zone": "Europe/Lisbon",
}
WITHOUT_PRICES = "Its rate card has no prices yet, so its jobs cost nothing."
LACKS_ALL = [
    "It has no users yet: create its first administrator.",
    "It has no team yet: jobs are submitted in teams.",
    "It has no quota yet: jobs need a quota of the organization and of a team.",
    "It has no rate card yet, so its jobs cost nothing.",
]


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def test_its_first_administrator_submits_a_job_right_afterwards() -> None:
    """Dies when the first team gets no quota (planted: the quota of the organization only)."""
    cast = a_cast()
    a_pool("a10")

    answer = by_session(cast.root).post("organizations", WHOLE)

    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    body = answer.json()
    link = body.pop("password_link")
    assert body.pop("invitation") is None
    organization = Node.objects.get(path="blue-whale-institute/")
    assert body == {
        "id": str(organization.pk),
        "kind": "organization",
        "slug": "blue-whale-institute",
        "name": "Blue Whale Institute",
        "path": "blue-whale-institute",
        "parent": None,
        "organization": "blue-whale-institute",
        "depth": 0,
        "archived_at": None,
        "team": "blue-whale-institute/main",
        "first_administrator": "maria@blue-whale-institute",
        "missing": [WITHOUT_PRICES],
    }
    assert (link["user"], link["sent_to"]) == ("maria@blue-whale-institute", None)
    quotas = Quota.objects.filter(node__organization=organization).order_by("node__path")
    assert [
        (quota.node.display_path, quota.pool.name, quota.guaranteed_mgpu, quota.guaranteed_bp)
        for quota in quotas
    ] == [
        ("blue-whale-institute", "a10", 64_000, None),
        ("blue-whale-institute/main", "a10", 64_000, 10_000),
    ]
    classes = PriorityClass.objects.filter(organization=organization).order_by("-order")
    assert [(each.name, each.order, each.grace_period_s) for each in classes] == [
        ("critical", 1000, 300),
        ("high", 100, 300),
        ("normal", 10, 300),
        ("low", 1, 60),
    ]
    assert OrganizationPolicy.objects.get(organization=organization).time_zone == "Europe/Lisbon"
    assert RateCard.objects.get(organization=organization).currency == "EUR"

    secret = link["link"].removeprefix("/set-password#")
    use = {"secret": secret, "password": OTHER_PASSWORD}
    assert as_nobody().post("password-links/use", use).status_code == 200
    maria = User.objects.get(login="maria@blue-whale-institute")
    assert sign_in(maria, OTHER_PASSWORD).status_code == 200
    job = by_session(maria).post("jobs", a_body("blue-whale-institute/main", pool="a10", gpus=8))
    assert job.status_code == 201
    assert (job.json()["state"], job.json()["mgpu"]) == ("queued", 8_000)


def test_every_part_is_in_the_audit_log() -> None:
    cast = a_cast()
    a_pool("a10")
    by_token(cast.root).post("organizations", WHOLE)
    found = AuditEvent.objects.filter(node_path__startswith="blue-whale-institute/")
    assert list(found.order_by("id").values_list("actor", "action", "node_path")) == [
        ("root", "organization_created", "blue-whale-institute/"),
        ("root", "policy.changed", "blue-whale-institute/"),
        ("root", "rate_card.created", "blue-whale-institute/"),
        ("root", "team_created", "blue-whale-institute/main/"),
        ("root", "quota.created", "blue-whale-institute/"),
        ("root", "quota.created", "blue-whale-institute/main/"),
        ("root", "user_created", "blue-whale-institute/"),
        ("root", "role_granted", "blue-whale-institute/"),
        ("root", "password_link_made", "blue-whale-institute/"),
    ]


def test_a_name_alone_makes_one_and_says_what_it_lacks() -> None:
    cast = a_cast()
    answer = by_token(cast.root).post("organizations", {"slug": "third", "name": "Third"})
    assert answer.status_code == 201
    made = answer.json()
    assert (made["slug"], made["team"], made["first_administrator"]) == ("third", None, None)
    assert (made["password_link"], made["missing"]) == (None, LACKS_ALL)
    assert OrganizationPolicy.objects.get(organization__slug="third").time_zone == "UTC"
    assert not Node.objects.filter(organization__slug="third").exclude(parent=None).exists()


def test_a_name_and_an_administrator_are_enough_for_a_team() -> None:
    cast = a_cast()
    first = {"username": "maria", "name": "Maria"}
    answer = by_token(cast.root).post(
        "organizations", {"name": "Third", "first_administrator": first}
    )
    assert answer.json()["team"] == "third/main"
    assert answer.json()["missing"] == [LACKS_ALL[2], LACKS_ALL[3]]


def test_a_repeated_request_makes_one_and_shows_the_link_once() -> None:
    """Dies when the secret is in the stored answer (planted: the link's body in `act`)."""
    cast = a_cast()
    a_pool("a10")
    caller = by_token(cast.root)
    first = caller.post("organizations", WHOLE, Idempotency_Key="once")
    again = caller.post("organizations", WHOLE, Idempotency_Key="once")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again["Idempotency-Replayed"] == "true"
    shown, repeated = first.json().pop("password_link"), again.json().pop("password_link")
    assert (shown["link"][:18], repeated["link"]) == ("/set-password#tdl_", None)
    assert again.json()["id"] == first.json()["id"]
    assert "tdl_" not in str(IdempotentAnswer.objects.get(key="once").body)
    assert PasswordLink.objects.count() == 1


def test_the_link_is_mailed_where_mail_is_configured(settings: Any) -> None:
    settings.IS_MAIL_CONFIGURED = True
    cast = a_cast()
    first = {"username": "maria", "name": "Maria", "email": "maria@example.org"}
    answer = by_token(cast.root).post(
        "organizations", {"name": "Third", "first_administrator": first}
    )
    link = answer.json()["password_link"]
    assert (link["sent_to"], link["link"]) == ("maria@example.org", None)
    assert [message.to for message in mail.outbox] == [["maria@example.org"]]


@pytest.mark.parametrize(
    ("change", "status", "pointers"),
    [
        ({"pool": "none"}, 400, ["/pool"]),
        ({"pool": None}, 400, ["/pool"]),
        ({"guaranteed_mgpu": None}, 400, ["/guaranteed_mgpu"]),
        ({"guaranteed_mgpu": -1}, 400, ["/guaranteed_mgpu"]),
        ({"currency": "euro"}, 400, ["/currency"]),
        ({"currency": "eur"}, 400, ["/currency"]),
        ({"time_zone": "Europe/Atlantis"}, 400, ["/time_zone"]),
        ({"time_zone": "../etc/passwd"}, 400, ["/time_zone"]),
        ({"team": "Main Team"}, 400, ["/team"]),
        ({"name": "鲸"}, 400, ["/slug"]),
        ({"slug": "Blue Whale"}, 400, ["/slug"]),
        ({"slug": "rival-lab"}, 409, ["/slug"]),
        (
            {"first_administrator": {"username": "Maria S", "name": "x"}},
            400,
            ["/first_administrator/username"],
        ),
        (
            {"first_administrator": {"username": "maria", "name": " "}},
            400,
            ["/first_administrator/name"],
        ),
        (
            {"first_administrator": {"username": "maria", "name": "x", "email": "x"}},
            400,
            ["/first_administrator/email"],
        ),
        ({"invited_administrator": {"email": "m@example.org"}}, 400, ["/invited_administrator"]),
        ({"tree": {"format": "csv", "text": "kind,path\nteam,other/x\n"}}, 400, ["/tree/text"]),
    ],
)
def test_a_part_that_is_refused_leaves_nothing_behind(
    change: dict[str, Any], status: int, pointers: list[str]
) -> None:
    cast = a_cast()
    a_pool("a10")
    before = (Node.objects.count(), User.objects.count(), AuditEvent.objects.count())
    answer = by_token(cast.root).post("organizations", {**WHOLE, **change})
    assert answer.status_code == status
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers
    assert (Node.objects.count(), User.objects.count(), AuditEvent.objects.count()) == before


def test_a_refused_last_part_takes_the_first_ones_back() -> None:
    """Dies without a transaction (planted: no `@transaction.atomic` on `make_organization`)."""
    cast = a_cast()
    wanted = NewOrganization("Third", pool="x", guaranteed_mgpu=1_000)
    with pytest.raises(InvalidRequest, match="There is no pool 'x'"):
        make_organization(wanted, actor=actor_of(cast.root), clock=ClockAt(NOW))
    assert not Node.objects.filter(slug="third").exists()


def test_only_platform_administrators_make_one() -> None:
    cast = a_cast()
    a_pool("a10")
    for caller in (by_token(cast.alice), by_token(cast.root, ["quotas", "jobs"])):
        assert caller.post("organizations", WHOLE).status_code == 403
    assert not Node.objects.filter(slug="blue-whale-institute").exists()


@pytest.mark.parametrize("time_zone", ["", "Europe/", "../x", "Europe/Lisbon\n"])
def test_the_database_keeps_time_zones_plain(time_zone: str) -> None:
    cast = a_cast()
    OrganizationPolicy.objects.get_or_create(organization=cast.organization)
    with pytest.raises(IntegrityError, match="policy_time_zone_is_plain"), transaction.atomic():
        OrganizationPolicy.objects.filter(organization=cast.organization).update(
            time_zone=time_zone
        )


TREE = """kind,path,name,user,role
department,blue-whale/labs,Labs,,
team,blue-whale/labs/nlp,NLP,,
member,blue-whale/labs/nlp,Ana Lima,ana@example.org,researcher
"""
INVITED: dict[str, Any] = {
    "name": "Blue Whale",
    "invited_administrator": {"email": "maria@example.org", "name": "Maria Silva"},
    "tree": {"format": "csv", "text": TREE},
}


def test_an_administrator_is_invited_and_a_tree_imported_in_the_same_step() -> None:
    """Planted: the default team made although a tree is given."""
    cast = a_cast()
    answer = by_token(cast.root).post("organizations", INVITED)
    assert answer.status_code == 201
    made = answer.json()
    assert (made["team"], made["first_administrator"], made["password_link"]) == (None, None, None)
    assert (made["invitation"]["email"], made["invitation"]["role"]) == (
        "maria@example.org",
        "organization_admin",
    )
    assert made["invitation"]["link"].startswith("/set-password#tdi_")
    assert made["missing"] == [LACKS_ALL[2], LACKS_ALL[3]]
    below = Node.objects.filter(organization__slug="blue-whale").order_by("path")
    assert [node.display_path for node in below] == [
        "blue-whale",
        "blue-whale/labs",
        "blue-whale/labs/nlp",
    ]
    invited = Invitation.objects.filter(node__organization__slug="blue-whale").order_by("email")
    assert [(each.email, each.role) for each in invited] == [
        ("ana@example.org", "researcher"),
        ("maria@example.org", "organization_admin"),
    ]
    secret = made["invitation"]["link"].removeprefix("/set-password#")
    use = {"secret": secret, "password": OTHER_PASSWORD}
    assert as_nobody().post("password-links/use", use).status_code == 200
    maria = User.objects.get(login="maria@blue-whale")
    assert sign_in(maria, OTHER_PASSWORD).status_code == 200


def test_a_repeated_request_shows_the_link_of_the_invitation_once() -> None:
    """Planted: the secret in the stored answer."""
    cast = a_cast()
    caller = by_token(cast.root)
    first = caller.post("organizations", INVITED, Idempotency_Key="once").json()
    again = caller.post("organizations", INVITED, Idempotency_Key="once").json()
    assert (first["invitation"]["link"][:18], again["invitation"]["link"]) == (
        "/set-password#tdi_",
        None,
    )
    assert "tdi_" not in str(IdempotentAnswer.objects.get(key="once").body)


def test_a_preview_shows_the_changes_and_makes_nothing() -> None:
    """Planted: the transaction of the preview committed."""
    cast = a_cast()
    before = (Node.objects.count(), Invitation.objects.count(), AuditEvent.objects.count())
    caller = by_token(cast.root)
    found = caller.post("organizations/preview", INVITED).json()
    assert (found["path"], found["team"], found["missing"]) == (
        "blue-whale",
        None,
        [LACKS_ALL[2], LACKS_ALL[3]],
    )
    assert found["tree"]["counts"] == {"node_created": 2, "person_invited": 1}
    wrong = {**INVITED, "tree": {"format": "csv", "text": TREE + "team,blue-whale/x/y,Y,,\n"}}
    found = caller.post("organizations/preview", wrong).json()
    assert found["tree"]["line_errors"] == [
        {
            "line": 5,
            "sentence": "The parent blue-whale/x does not exist. Add a row for it.",
        }
    ]
    refused = caller.post("organizations", wrong)
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "Nothing was imported. Line 5: The parent blue-whale/x does not exist. Add a row for it.",
    )
    assert caller.post("organizations/preview", {"name": "x", "pool": "none"}).status_code == 400
    assert by_token(cast.alice).post("organizations/preview", INVITED).status_code == 403
    assert (
        Node.objects.count(),
        Invitation.objects.count(),
        AuditEvent.objects.count(),
    ) == before
