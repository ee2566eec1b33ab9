"""Roles with an end: what they give before and after it, who sets it, and what becomes of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import FAR_AHEAD, LONG_AGO, by_session, by_token
from builders.cast import Cast, a_cast
from builders.portal_builders import NOW, a_cluster, a_grant
from notices.recipients import nearest_people, platform_administrators
from quotas.entitlements import _Submitters
from quotas.models import ClusterUser
from tenants.access import actor_of
from tenants.granting import remove_expired_roles
from tenants.managing import manages
from tenants.models import RoleGrant, User
from tenants.roles import Permission, Role

pytestmark = pytest.mark.django_db

NLP = "ai-company/research/nlp"
SOON = "2199-01-01T00:00:00Z"


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def ends(grant: RoleGrant, at: datetime | None) -> RoleGrant:
    RoleGrant.objects.filter(pk=grant.pk).update(created_at=LONG_AGO, expires_at=at)
    return grant


def expired(grant: RoleGrant) -> RoleGrant:
    return ends(grant, LONG_AGO + timedelta(seconds=1))


def change(user: User, grant: RoleGrant, body: Any, version: int = 1) -> Any:
    return by_token(user).patch(f"role-grants/{grant.pk}", body, If_Match=f'"v{version}"')


def test_an_expired_role_gives_no_right(cast: Cast) -> None:
    """By token and by session. Against: the statement of tokens, and `actor_of`, without it."""
    body = {"user": "dave@ai-company", "role": "researcher", "node": NLP, "expires_at": SOON}
    ends(cast.grant_of(cast.nlp_lead), FAR_AHEAD)
    assert actor_of(cast.nlp_lead).grants == ((Role.TEAM_LEAD, "ai-company/research/nlp/"),)
    assert by_token(cast.nlp_lead).post("role-grants", body).status_code == 201
    expired(cast.grant_of(cast.nlp_lead))
    assert actor_of(cast.nlp_lead).grants == ()
    body["role"] = "auditor"
    assert by_token(cast.nlp_lead).post("role-grants", body).status_code == 404
    assert by_session(cast.nlp_lead).post("role-grants", body).status_code == 404


def test_an_expired_role_counts_nowhere_else(cast: Cast) -> None:
    """Against: each of the four reads without the condition."""
    expired(cast.grant_of(cast.nlp_lead))
    expired(cast.grant_of(cast.root))
    expired(cast.grant_of(cast.service))
    cluster = a_cluster("slurm", kind="slurm")
    for user in (cast.bob, cast.nlp_lead):
        ClusterUser.objects.create(cluster=cluster, user=user, name=user.username)
    assert nearest_people(Permission.MANAGE_JOBS, cast.nlp.path) == [cast.research_admin.pk]
    assert platform_administrators() == []
    assert _Submitters(cluster).of(cast.nlp.path) == ("bob",)
    assert not manages(actor_of(cast.research_admin), cast.service)


def test_a_role_is_granted_until_a_time(cast: Cast) -> None:
    """Against: an expired grant in the way of a new one."""
    body = {"user": "dave@ai-company", "role": "researcher", "node": NLP, "expires_at": SOON}
    answer = by_token(cast.nlp_lead).post("role-grants", body)
    assert (answer.status_code, answer.json()["expires_at"]) == (201, SOON)
    assert by_token(cast.nlp_lead).post("role-grants", body).status_code == 409
    expired(cast.grant_of(cast.dave))
    again = by_token(cast.nlp_lead).post("role-grants", {**body, "expires_at": None})
    assert (again.status_code, again.json()["expires_at"]) == (201, None)
    past = by_token(cast.nlp_lead).post(
        "role-grants", {**body, "role": "service_account", "expires_at": "2001-01-01T00:00:00Z"}
    )
    assert past.status_code == 400
    assert past.json()["detail"] == (
        "expires_at must be in the future. Omit it for a role that does not expire."
    )


def test_the_role_and_its_expiry_are_changed(cast: Cast) -> None:
    """Both in one version, with one event each. Against: `null` that leaves the expiry."""
    grant = cast.grant_of(cast.bob)
    assert by_token(cast.nlp_lead).get(f"role-grants/{grant.pk}")["ETag"] == '"v1"'
    body = change(cast.nlp_lead, grant, {"role": "team_lead", "expires_at": SOON})
    assert (body.status_code, body["ETag"]) == (200, '"v2"')
    assert (body.json()["role"], body.json()["expires_at"]) == ("team_lead", SOON)
    lifted = change(cast.nlp_lead, grant, {"expires_at": None}, version=2)
    assert lifted.json()["expires_at"] is None
    first, second = AuditEvent.objects.filter(action="role_changed").order_by("pk")
    assert first.detail["before"] == {"role": "researcher", "expires_at": None}
    assert second.detail["after"] == {"role": "team_lead", "expires_at": None}


def test_a_change_needs_the_version_that_was_seen(cast: Cast) -> None:
    """A stale one is answered with the current grant. Against: no comparison."""
    grant = cast.grant_of(cast.bob)
    stale = change(cast.nlp_lead, grant, {"role": "team_lead"}, version=2)
    assert (stale.status_code, stale.json()["current"]["role"]) == (412, "researcher")
    missing = by_token(cast.nlp_lead).patch(f"role-grants/{grant.pk}", {"role": "team_lead"})
    assert missing.status_code == 428
    assert change(cast.nlp_lead, grant, {}).status_code == 400


def test_a_change_gives_no_more_than_the_actor_has(cast: Cast) -> None:
    """Neither the new role nor the old one. Against: a check of the old role only."""
    grant = cast.grant_of(cast.bob)
    assert change(cast.nlp_lead, grant, {"role": "department_admin"}).status_code == 403
    assert change(cast.bob, grant, {"role": "team_lead"}).status_code == 403
    assert change(cast.charlie, grant, {"role": "team_lead"}).status_code == 404
    assert change(cast.root, grant, {"role": "platform_admin"}).status_code == 400
    own = a_grant(cast.bob, Role.TEAM_LEAD, cast.nlp)
    assert change(cast.nlp_lead, own, {"role": "researcher"}).status_code == 409
    assert AuditEvent.objects.count() == 0


def test_nobody_lengthens_an_own_role(cast: Cast) -> None:
    """Not even beside a lasting one. Planted: no comparison of the ends (200)."""
    ends(cast.grant_of(cast.nlp_lead), FAR_AHEAD)
    for end in (None, "2199-01-02T00:00:00Z"):
        answer = change(cast.nlp_lead, cast.grant_of(cast.nlp_lead), {"expires_at": end})
        assert (answer.status_code, answer.json()["detail"]) == (
            403,
            "You cannot lengthen a role of your own. Ask an administrator whose role lasts longer.",
        )
    assert cast.grant_of(cast.nlp_lead).expires_at == FAR_AHEAD
    assert change(cast.alice, cast.grant_of(cast.nlp_lead), {"expires_at": None}).status_code == 200


def test_no_role_outlasts_the_right_to_give_it(cast: Cast) -> None:
    """Neither a new one, a changed one, an invitation nor a longer one. Planted: no bound (201)."""
    ends(cast.grant_of(cast.nlp_lead), FAR_AHEAD)
    caller = by_token(cast.nlp_lead)
    lasting = {"user": "dave@ai-company", "role": "team_lead", "node": NLP}
    person = {"email": "paul@example.org", "role": "researcher"}
    invitations = f"tree/{cast.nlp.pk}/invitations"
    for answer in (
        caller.post("role-grants", lasting),
        change(cast.nlp_lead, cast.grant_of(cast.bob), {"role": "team_lead"}),
        caller.post(invitations, person),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (
            403,
            "Your own role there ends at 2199-01-01 00:00 UTC, so you cannot give a role that "
            "lasts longer. Ask an administrator whose role lasts longer.",
        )
    assert caller.post("role-grants", {**lasting, "expires_at": SOON}).status_code == 201
    assert caller.post(invitations, {**person, "role_expires_at": SOON}).status_code == 201


def test_the_last_administrator_of_an_organization_stays(cast: Cast) -> None:
    """An administrator whose role ends is not counted, nor one by a group. Planted: a role by a
    group counted (200)."""
    grant = cast.grant_of(cast.alice)
    second = ends(a_grant(cast.dave, Role.ORGANIZATION_ADMIN, cast.organization), FAR_AHEAD)
    refusal = "This is the last administrator of ai-company; make another one first."
    revoked = by_token(cast.alice).delete(f"role-grants/{grant.pk}")
    assert (revoked.status_code, revoked.json()["detail"]) == (409, refusal)
    assert change(cast.alice, grant, {"role": "auditor"}).json()["detail"] == refusal
    assert change(cast.alice, grant, {"expires_at": SOON}).json()["detail"] == refusal
    by_group = a_grant(cast.bob, Role.ORGANIZATION_ADMIN, cast.organization)
    RoleGrant.objects.filter(pk=by_group.pk).update(group="admins")
    assert change(cast.alice, grant, {"role": "auditor"}).status_code == 409
    assert change(cast.alice, second, {"expires_at": None}).status_code == 200
    assert change(cast.alice, grant, {"expires_at": SOON}).status_code == 200


def test_expired_roles_are_removed_with_an_event(cast: Cast) -> None:
    """Against: a role that ends later is removed, too."""
    gone = ends(cast.grant_of(cast.bob), NOW)
    ends(cast.grant_of(cast.nlp_lead), NOW + timedelta(seconds=1))
    assert remove_expired_roles(NOW) == 1
    assert remove_expired_roles(NOW) == 0
    assert not RoleGrant.objects.filter(pk=gone.pk).exists()
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.node_path) == ("role_expired", "system", f"{NLP}/")
    assert event.detail == {
        "user": "bob@ai-company",
        "role": "researcher",
        "node": NLP,
        "expires_at": "2026-11-21T12:00:00+00:00",
    }
