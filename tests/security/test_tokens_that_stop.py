"""Attacks with tokens: what others' acts must end, and what nobody can reach with one."""

from __future__ import annotations

import pytest
from django.test import Client

from audit.models import AuditEvent
from builders.api_callers import Caller, a_token, by_session, by_token, with_secret
from builders.cast import a_cast
from tenants.models import AccessToken

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"
ROBOT = "robot@ai-company"
BODY = {"name": "ci", "scopes": ["jobs"], "expires_in_days": 30, "user": ROBOT}


def test_a_lead_does_not_reach_what_a_service_account_is_given_later() -> None:
    """Planted bug: without the look at who made its tokens, the lead of nlp submits to inference
    with the token made before."""
    cast = a_cast()
    made = by_session(cast.nlp_lead).post("tokens", BODY).json()
    by_alice = by_session(cast.alice).post("tokens", BODY).json()
    grant = {"user": ROBOT, "role": "researcher", "node": "ai-company/production/inference"}

    assert by_session(cast.alice).post("role-grants", grant).status_code == 201

    assert with_secret(made["secret"]).get("session").status_code == 401
    assert with_secret(by_alice["secret"]).get("session").status_code == 200
    event = AuditEvent.objects.get(action="token_revoked")
    assert (event.actor, event.subject_id) == ("alice@ai-company", made["id"])
    assert by_session(cast.nlp_lead).post("tokens", BODY).status_code == 403


def test_a_role_of_the_same_team_ends_none_of_its_tokens() -> None:
    cast = a_cast()
    made = by_session(cast.nlp_lead).post("tokens", BODY).json()
    grant = {"user": ROBOT, "role": "researcher", "node": "ai-company/research/nlp"}
    assert by_session(cast.alice).post("role-grants", grant).status_code == 201
    assert with_secret(made["secret"]).get("session").status_code == 200


def test_no_administrator_gets_a_token_of_a_person() -> None:
    """Planted bug: with replacing allowed for whoever may revoke, the answer to an administrator
    has the new secret of somebody else's token."""
    cast = a_cast()
    token, secret = a_token(cast.bob)
    for user in (cast.root, cast.alice):
        caller = by_session(user)
        assert caller.post("tokens", {**BODY, "user": cast.bob.login}).status_code == 409
        answer = caller.post(f"tokens/{token.pk}/rotate", {})
        assert answer.status_code == 409
        assert "secret" not in answer.json()
    assert with_secret(secret).get("session").status_code == 200
    assert AccessToken.objects.count() == 1


@pytest.mark.parametrize("who", ["root", "alice"])
def test_an_administrator_ends_a_lost_token(who: str) -> None:
    cast = a_cast()
    token, secret = a_token(cast.bob)
    assert by_session(getattr(cast, who)).delete(f"tokens/{token.pk}").status_code == 204
    assert with_secret(secret).get("session").status_code == 401
    event = AuditEvent.objects.get(action="token_revoked")
    assert (event.actor, event.node_path) == (getattr(cast, who).login, "ai-company/")
    assert event.detail["user"] == "bob@ai-company"


def test_no_administrator_of_an_organization_ends_tokens_of_the_platform_or_of_others() -> None:
    cast = a_cast()
    for owner in (cast.root, cast.charlie):
        token, secret = a_token(owner)
        assert by_session(cast.alice).delete(f"tokens/{token.pk}").status_code == 404
        assert with_secret(secret).get("session").status_code == 200


def test_what_a_stolen_token_made_ends_with_it() -> None:
    """Planted bug: with only the owner's own tokens followed, the one that was made for a service
    account goes on."""
    cast = a_cast()
    stolen, secret = a_token(cast.alice)
    thief = with_secret(secret)
    own = thief.post("tokens", {"name": "x", "scopes": ["admin"], "expires_in_days": 1}).json()
    robots = with_secret(own["secret"]).post("tokens", BODY).json()
    assert with_secret(robots["secret"]).get("session").status_code == 200

    assert by_session(cast.alice).delete(f"tokens/{stolen.pk}").status_code == 204

    for made in (own["secret"], robots["secret"], secret):
        assert with_secret(made).get("session").status_code == 401


def test_a_stolen_token_does_not_replace_itself() -> None:
    cast = a_cast()
    token, secret = a_token(cast.bob)
    answer = with_secret(secret).post(f"tokens/{token.pk}/rotate", {})
    assert answer.status_code == 409
    assert AccessToken.objects.count() == 1


def test_a_narrow_token_makes_and_replaces_no_wider_one() -> None:
    cast = a_cast()
    wide, _ = a_token(cast.bob, ["admin"])
    narrow = by_token(cast.bob, ["read"])
    assert narrow.post(f"tokens/{wide.pk}/rotate", {}).status_code == 403
    wide.refresh_from_db()
    assert wide.revoked_at is None


def test_a_deactivated_service_account_has_no_way_in() -> None:
    cast = a_cast()
    alice = by_session(cast.alice)
    made = alice.post("tokens", BODY).json()
    assert alice.patch(f"users/{cast.service.pk}", {"is_active": False}).status_code == 200
    assert with_secret(made["secret"]).get("session").status_code == 401
    assert alice.post("tokens", BODY).status_code == 409


def test_a_deactivated_person_has_no_way_in_and_gets_none_of_them_back() -> None:
    """Planted: tokens not revoked, sessions not ended, each so that a reactivation brings them
    back; a password that still opens the door."""
    cast = a_cast()
    cast.bob.set_password(PASSWORD)
    cast.bob.save()
    alice, session = by_session(cast.alice), by_session(cast.bob)
    token, secret = a_token(cast.bob)
    path = f"users/{cast.bob.pk}"

    assert alice.post(f"{path}/deactivate", {}).status_code == 200
    assert session.get("session").status_code == 401
    assert with_secret(secret).get("session").status_code == 401
    credentials = {"login": cast.bob.login, "password": PASSWORD}
    newcomer = Caller({}, Client())
    assert newcomer.post("session", credentials).status_code == 401

    assert alice.patch(path, {"is_active": True}).status_code == 200
    assert session.get("session").status_code == 401
    assert with_secret(secret).get("session").status_code == 401
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert newcomer.post("session", credentials).status_code in {200, 201}
