"""Roles: who may give which to whom, where."""

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.portal_builders import a_grant, a_team, a_user
from primitives.errors import Forbidden
from tenants.access import actor_of
from tenants.granting import GRANTS_MAX, require_may_hand_out
from tenants.models import RoleGrant, User
from tenants.roles import PERMISSIONS, Role

pytestmark = pytest.mark.django_db

ORGANIZATION, RESEARCH, NLP = "ai-company", "ai-company/research", "ai-company/research/nlp"
PRODUCTION, INFERENCE = "ai-company/production", "ai-company/production/inference"


def grant(user: User, to: User, role: str, node: str | None, **token: Any) -> Any:
    return by_token(user, **token).post(
        "role-grants", {"user": to.login, "role": role, "node": node}
    )


def test_a_grant_is_stored_shown_and_audited() -> None:
    cast = a_cast()
    answer = grant(cast.alice, cast.dave, "team_lead", NLP)
    assert answer.status_code == 201
    stored = RoleGrant.objects.get(user=cast.dave)
    body = answer.json()
    assert body.pop("created_at").endswith("Z")
    assert body == {
        "id": str(stored.pk),
        "user": "dave@ai-company",
        "role": "team_lead",
        "node": NLP,
        "granted_by": "alice@ai-company",
        "group": "",
        "expires_at": None,
        "version": 1,
    }
    event = AuditEvent.objects.get()
    assert (event.action, event.subject_kind, event.subject_id, event.node_path) == (
        "role_granted",
        "role_grant",
        str(stored.pk),
        NLP + "/",
    )
    assert event.detail == {"user": "dave@ai-company", "role": "team_lead", "node": NLP}
    assert event.request_id == answer["X-Request-ID"]


#: granter, role, node, status. Nobody gives what they lack there.
ATTEMPTS = [
    ("alice", "organization_admin", ORGANIZATION, 201),
    ("alice", "auditor", ORGANIZATION, 201),
    ("alice", "finance", RESEARCH, 201),
    ("alice", "platform_admin", None, 403),
    ("research_admin", "department_admin", RESEARCH, 201),
    ("research_admin", "team_lead", NLP, 201),
    ("research_admin", "auditor", RESEARCH, 201),
    ("research_admin", "finance", RESEARCH, 403),
    ("research_admin", "organization_admin", RESEARCH, 403),
    ("research_admin", "department_admin", ORGANIZATION, 403),
    ("research_admin", "researcher", INFERENCE, 403),
    ("research_admin", "platform_admin", None, 403),
    ("production_admin", "researcher", NLP, 403),
    ("nlp_lead", "researcher", NLP, 201),
    ("nlp_lead", "team_lead", NLP, 201),
    ("nlp_lead", "service_account", NLP, 201),
    ("nlp_lead", "department_admin", NLP, 403),
    ("nlp_lead", "organization_admin", NLP, 403),
    ("nlp_lead", "organization_admin", ORGANIZATION, 403),
    ("nlp_lead", "auditor", NLP, 403),
    ("nlp_lead", "finance", NLP, 403),
    ("nlp_lead", "researcher", RESEARCH, 403),
    ("root", "organization_admin", ORGANIZATION, 201),
]


@pytest.mark.parametrize(("granter", "role", "node", "status"), ATTEMPTS)
def test_nobody_grants_what_they_lack(
    granter: str, role: str, node: str | None, status: int
) -> None:
    cast = a_cast()
    before = RoleGrant.objects.count()
    answer = grant(getattr(cast, granter), cast.dave, role, node)
    assert answer.status_code == status
    assert RoleGrant.objects.count() == before + (status == 201)
    assert AuditEvent.objects.count() == (status == 201)


@pytest.mark.parametrize("user", ["bob", "finance", "auditor", "service", "dave"])
@pytest.mark.parametrize(
    ("role", "node"),
    [
        ("researcher", NLP),
        ("team_lead", NLP),
        ("organization_admin", ORGANIZATION),
        ("platform_admin", None),
    ],
)
def test_nobody_grants_themselves_anything(user: str, role: str, node: str | None) -> None:
    cast = a_cast()
    person = getattr(cast, user)
    before = list(person.grants.values())
    assert grant(person, person, role, node).status_code in {403, 409}
    assert list(person.grants.values()) == before


@pytest.mark.parametrize("scopes", [[], ["read"], ["jobs"], ["quotas"], ["reports"]])
def test_the_scopes_of_the_token_count(scopes: list[str]) -> None:
    cast = a_cast()
    answer = grant(cast.alice, cast.alice, "researcher", NLP, scopes=scopes)
    assert answer.status_code in {403, 404}
    assert not RoleGrant.objects.filter(user=cast.alice, role="researcher").exists()


def test_every_role_is_refused_unless_each_of_its_permissions_is_held() -> None:
    cast = a_cast()
    for granter in (cast.alice, cast.research_admin, cast.nlp_lead, cast.bob, cast.root):
        actor = actor_of(granter)
        for role in Role:
            lacking = {p for p in PERMISSIONS[role] if not actor.holds(p, cast.nlp.path)}
            if not lacking:
                require_may_hand_out(actor, role, cast.nlp)
                continue
            with pytest.raises(Forbidden) as refusal:
                require_may_hand_out(actor, role, cast.nlp)
            assert refusal.value.data["lacking"] == sorted(p.value for p in lacking)


def test_foreign_users_and_nodes_in_a_body_look_absent() -> None:
    cast = a_cast()
    before = RoleGrant.objects.count()
    alice = by_token(cast.alice)
    for login in ("charlie@rival-lab", "nobody@rival-lab", "root"):
        answer = alice.post("role-grants", {"user": login, "role": "researcher", "node": NLP})
        assert answer.status_code == 404
        assert answer.json()["detail"] == f"There is no user {login!r} that you can see."
    for node in ("rival-lab", "rival-lab/team", "absent"):
        answer = alice.post(
            "role-grants", {"user": "bob@ai-company", "role": "researcher", "node": node}
        )
        assert answer.status_code == 404
        assert answer.json()["detail"] == f"There is no {node!r} that you can see."
    for user, node in ((cast.charlie, NLP), (cast.bob, "rival-lab/team")):
        answer = grant(cast.charlie, user, "researcher", node)
        assert answer.status_code == 404
    assert RoleGrant.objects.count() == before


def test_even_a_platform_admin_keeps_users_in_their_organization() -> None:
    cast = a_cast()
    answer = grant(cast.root, cast.charlie, "researcher", NLP)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/user"
    answer = grant(cast.root, cast.charlie, "platform_admin", None)
    assert answer.status_code == 400
    second = a_user(None, "second")
    assert grant(cast.root, second, "platform_admin", None).status_code == 201
    assert grant(cast.root, second, "auditor", ORGANIZATION).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {"user": "dave@ai-company", "role": "researcher"},
        {"user": "dave@ai-company", "role": "researcher", "node": None},
        {"user": "dave@ai-company", "role": "platform_admin", "node": ORGANIZATION},
        {"user": "dave@ai-company", "role": "emperor", "node": NLP},
        {"user": "dave@ai-company", "role": ["researcher"], "node": NLP},
        {"user": "dave@ai-company", "role": "researcher", "node": 5},
        {"user": {"login": "dave"}, "role": "researcher", "node": NLP},
        {"user": "dave@ai-company", "role": "researcher", "node": NLP, "granted_by": "root"},
        {"role": "researcher", "node": NLP},
    ],
)
def test_what_does_not_fit_is_refused(body: Any) -> None:
    cast = a_cast()
    assert by_token(cast.root).post("role-grants", body).status_code == 400
    assert cast.dave.grants.count() == 0


def test_conflicts() -> None:
    cast = a_cast()
    assert grant(cast.alice, cast.bob, "researcher", NLP).status_code == 409
    User.objects.filter(pk=cast.dave.pk).update(is_active=False)
    assert grant(cast.alice, cast.dave, "researcher", NLP).status_code == 409
    for _ in range(GRANTS_MAX - 1):
        a_grant(cast.bob, Role.RESEARCHER, a_team(cast.research))
    assert grant(cast.alice, cast.bob, "team_lead", NLP).status_code == 409
    assert cast.bob.grants.count() == GRANTS_MAX


def grants_seen(cast: Cast, user: User, query: str = "") -> list[tuple[str, str]]:
    answer = by_token(user).get("role-grants" + query)
    assert answer.status_code == 200
    return sorted((item["user"].partition("@")[0], item["role"]) for item in answer.json()["items"])


def test_who_sees_which_grants() -> None:
    cast = a_cast()
    in_nlp = [("bob", "researcher"), ("nlp-lead", "team_lead"), ("robot", "service_account")]
    assert grants_seen(cast, cast.nlp_lead) == in_nlp
    assert grants_seen(cast, cast.research_admin) == sorted(
        [*in_nlp, ("research-admin", "department_admin")]
    )
    assert len(grants_seen(cast, cast.alice)) == len(grants_seen(cast, cast.auditor)) == 8
    assert grants_seen(cast, cast.bob) == [("bob", "researcher")]
    assert grants_seen(cast, cast.charlie) == [("charlie", "organization_admin")]
    assert grants_seen(cast, cast.dave) == []
    assert len(grants_seen(cast, cast.root)) == RoleGrant.objects.count() == 10


def test_filters() -> None:
    cast = a_cast()
    assert grants_seen(cast, cast.alice, "?user=bob@ai-company") == [("bob", "researcher")]
    assert grants_seen(cast, cast.alice, "?user=charlie@rival-lab") == []
    assert grants_seen(cast, cast.alice, f"?node={RESEARCH}") == [
        ("research-admin", "department_admin")
    ]
    assert grants_seen(cast, cast.alice, "?node=rival-lab") == []
    assert grants_seen(cast, cast.alice, "?role=finance") == [("finance", "finance")]
    assert by_token(cast.alice).get("role-grants?role=emperor").status_code == 400
    assert by_token(cast.alice).get("role-grants?users=bob").status_code == 400


def revoke(user: User, given: RoleGrant, scopes: Any = ("admin",)) -> int:
    status: int = by_token(user, scopes).delete(f"role-grants/{given.pk}").status_code
    return status


def test_taking_back_follows_the_same_rules() -> None:
    cast = a_cast()
    of_bob, of_lead = cast.grant_of(cast.bob), cast.grant_of(cast.nlp_lead)
    strong = a_grant(cast.dave, Role.ORGANIZATION_ADMIN, cast.nlp)
    assert revoke(cast.charlie, of_bob) == 404
    assert revoke(cast.production_admin, of_bob) == 404
    assert revoke(cast.bob, of_lead) == 404
    assert revoke(cast.bob, of_bob) == 403
    assert revoke(cast.auditor, of_bob) == 403
    assert revoke(cast.nlp_lead, strong) == 403
    assert revoke(cast.nlp_lead, cast.grant_of(cast.research_admin)) == 404
    assert revoke(cast.nlp_lead, of_bob, ["read"]) == 404
    assert RoleGrant.objects.count() == 11
    assert AuditEvent.objects.count() == 0
    assert revoke(cast.nlp_lead, of_bob) == 204
    assert revoke(cast.nlp_lead, of_bob) == 404
    assert revoke(cast.research_admin, of_lead) == 204
    assert RoleGrant.objects.count() == 9
    assert AuditEvent.objects.filter(action="role_revoked").count() == 2


def test_rights_end_with_the_grant_at_once() -> None:
    cast = a_cast()
    lead = by_token(cast.nlp_lead)
    body = {"user": "dave@ai-company", "role": "researcher", "node": NLP}
    assert revoke(cast.alice, cast.grant_of(cast.nlp_lead)) == 204
    assert lead.post("role-grants", body).status_code in {403, 404}


def test_the_last_platform_admin_stays() -> None:
    cast = a_cast()
    given = cast.grant_of(cast.root)
    assert revoke(cast.root, given) == 409
    second = a_user(None, "second")
    of_second = a_grant(second, Role.PLATFORM_ADMIN, None)
    User.objects.filter(pk=second.pk).update(is_active=False)
    assert revoke(cast.root, given) == 409
    User.objects.filter(pk=second.pk).update(is_active=True)
    assert revoke(second, given) == 204
    assert revoke(second, of_second) == 409
    assert RoleGrant.objects.get(role=Role.PLATFORM_ADMIN) == of_second
