"""Access tokens over REST: one's own, narrower, mortal."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import LONG_AGO, a_token, by_session, by_token, with_secret
from builders.cast import a_cast
from builders.portal_builders import NOW
from primitives.errors import Conflict, Unauthenticated
from tenants.access import actor_of
from tenants.models import AccessToken
from tenants.roles import Scope
from tenants.tokens import LIVE_TOKENS_MAX, create_token, digest_of, is_well_formed
from webapi.models import IdempotentAnswer

pytestmark = pytest.mark.django_db


def a_body(**changes: Any) -> dict[str, Any]:
    return {"name": "laptop", "scopes": ["read", "jobs"], "expires_in_days": 30, **changes}


def test_a_token_is_made_and_its_secret_shown_once() -> None:
    cast = a_cast()
    session = by_session(cast.bob)
    answer = session.post("tokens", a_body())
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    body = answer.json()
    stored = AccessToken.objects.get()
    secret = body.pop("secret")
    assert is_well_formed(secret)
    assert bytes(stored.digest) == digest_of(secret)
    lifetime = datetime.fromisoformat(body.pop("expires_at")) - datetime.fromisoformat(
        body.pop("created_at")
    )
    assert lifetime == timedelta(days=30)
    shown = {
        "id": str(stored.pk),
        "user": "bob@ai-company",
        "made_by": None,
        "name": "laptop",
        "prefix": secret[:12],
        "scopes": ["jobs", "read"],
        "last_used_at": None,
        "revoked_at": None,
    }
    assert body == shown
    (item,) = session.get("tokens").json()["items"]
    assert "secret" not in item
    assert item["id"] == str(stored.pk)
    event = AuditEvent.objects.get(action="token_created")
    assert (event.actor, event.node_path) == ("bob@ai-company", "ai-company/")
    assert event.detail == {"name": "laptop", "prefix": secret[:12], "scopes": ["jobs", "read"]}
    assert secret not in str(list(AuditEvent.objects.values()))
    assert with_secret(secret).get("session").json()["user"]["login"] == "bob@ai-company"


@pytest.mark.parametrize(
    "body",
    [
        a_body(scopes=[]),
        a_body(scopes=["everything"]),
        a_body(scopes="read"),
        a_body(scopes=None),
        a_body(scopes=[["read"]]),
        a_body(scopes=["read"] * 6),
        a_body(expires_in_days=0),
        a_body(expires_in_days=366),
        a_body(expires_in_days=-1),
        a_body(expires_in_days="30"),
        a_body(expires_in_days=True),
        a_body(expires_in_days=1.5),
        a_body(expires_in_days=10**29),
        a_body(expires_in_days=None),
        {"name": "laptop", "scopes": ["read"]},
        a_body(name=""),
        a_body(name="a\nb"),
        a_body(name="x" * 101),
        a_body(user=7),
    ],
)
def test_what_is_not_a_token_is_refused(body: Any) -> None:
    cast = a_cast()
    assert by_session(cast.bob).post("tokens", body).status_code == 400
    assert AccessToken.objects.count() == 0


def test_who_manages_nobody_sees_and_revokes_their_own_only() -> None:
    cast = a_cast()
    token, secret = a_token(cast.bob)
    for user in (cast.charlie, cast.nlp_lead, cast.research_admin, cast.auditor):
        caller = by_session(user)
        assert caller.get("tokens").json()["items"] == []
        assert caller.delete(f"tokens/{token.pk}").status_code == 404
    assert with_secret(secret).get("tokens").status_code == 200
    assert by_session(cast.bob).delete(f"tokens/{token.pk}").status_code == 204
    assert with_secret(secret).get("tokens").status_code == 401


def test_revoking_again_changes_nothing() -> None:
    cast = a_cast()
    token, _ = a_token(cast.bob)
    session = by_session(cast.bob)
    assert session.delete(f"tokens/{token.pk}").status_code == 204
    token.refresh_from_db()
    first = token.revoked_at
    assert session.delete(f"tokens/{token.pk}").status_code == 204
    token.refresh_from_db()
    assert token.revoked_at == first
    assert AuditEvent.objects.filter(action="token_revoked").count() == 1


@pytest.mark.parametrize(
    ("own", "wanted", "status"),
    [
        (["read"], ["read"], 201),
        (["read"], ["jobs"], 403),
        (["read"], ["read", "jobs"], 403),
        (["jobs"], ["read"], 201),
        (["jobs"], ["admin"], 403),
        (["read", "quotas", "reports"], ["admin"], 403),
        (["reports"], ["read"], 403),
        (["quotas"], ["reports"], 403),
        ([], ["read"], 403),
        (["unknown"], ["read"], 403),
        (["admin"], ["read", "jobs", "quotas", "reports", "admin"], 201),
    ],
)
def test_a_token_makes_none_that_may_more(own: list[str], wanted: list[str], status: int) -> None:
    cast = a_cast()
    answer = by_token(cast.alice, own).post("tokens", a_body(scopes=wanted))
    assert answer.status_code == status
    assert AccessToken.objects.count() == 1 + (status == 201)


def test_a_token_makes_none_that_lives_longer_and_takes_them_along() -> None:
    cast = a_cast()
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
    parent, secret = a_token(cast.bob, ["jobs"], expires_at=soon)
    child = with_secret(secret).post("tokens", a_body(scopes=["jobs"])).json()
    assert datetime.fromisoformat(child["expires_at"]) == soon
    grandchild = with_secret(child["secret"]).post("tokens", a_body(scopes=["read"])).json()
    other, other_secret = a_token(cast.bob)
    assert by_session(cast.bob).delete(f"tokens/{parent.pk}").status_code == 204
    for dead in (secret, child["secret"], grandchild["secret"]):
        assert with_secret(dead).get("tokens").status_code == 401
    assert with_secret(other_secret).get("tokens").status_code == 200
    other.refresh_from_db()
    assert other.revoked_at is None


def test_a_token_that_is_revoked_meanwhile_makes_none() -> None:
    cast = a_cast()
    token, _ = a_token(cast.bob)
    actor = actor_of(cast.bob, token=token)
    AccessToken.objects.filter(pk=token.pk).update(revoked_at=LONG_AGO)
    with pytest.raises(Unauthenticated):
        create_token(actor=actor, name="x", scopes=[Scope.READ], expires_in_days=1, now=NOW)
    assert AccessToken.objects.count() == 1


def test_a_token_revokes_itself_and_weaker_ones() -> None:
    cast = a_cast()
    weak, weak_secret = a_token(cast.bob, ["read"])
    strong, strong_secret = a_token(cast.bob, ["admin"])
    other, _ = a_token(cast.bob, ["jobs"])
    assert with_secret(weak_secret).delete(f"tokens/{strong.pk}").status_code == 403
    assert with_secret(weak_secret).delete(f"tokens/{other.pk}").status_code == 403
    assert with_secret(strong_secret).delete(f"tokens/{other.pk}").status_code == 204
    assert with_secret(weak_secret).delete(f"tokens/{weak.pk}").status_code == 204
    assert with_secret(strong_secret).delete(f"tokens/{strong.pk}").status_code == 204


def test_fifty_live_tokens_are_enough_and_dead_ones_do_not_count() -> None:
    cast = a_cast()
    session = by_session(cast.bob)
    a_token(cast.bob, expires_at=LONG_AGO + timedelta(days=1))
    a_token(cast.bob, revoked_at=LONG_AGO)
    for _ in range(LIVE_TOKENS_MAX - 1):
        a_token(cast.bob)
    assert session.post("tokens", a_body()).status_code == 201
    answer = session.post("tokens", a_body())
    assert answer.status_code == 409
    assert answer.json()["detail"] == "You have 50 live tokens already. Revoke one first."
    assert by_session(cast.alice).post("tokens", a_body()).status_code == 201


def test_the_repeat_of_a_request_makes_no_second_token_and_no_secret_is_stored() -> None:
    cast = a_cast()
    session = by_session(cast.bob)
    first = session.post("tokens", a_body(), Idempotency_Key="k1")
    again = session.post("tokens", a_body(), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again["Idempotency-Replayed"] == "true"
    assert again.json() == {**first.json(), "secret": None}
    assert AccessToken.objects.count() == 1
    assert first.json()["secret"] not in str(list(IdempotentAnswer.objects.values()))
    assert session.post("tokens", a_body(name="x"), Idempotency_Key="k1").status_code == 422


def test_a_user_deactivated_meanwhile_gets_none() -> None:
    cast = a_cast()
    actor = actor_of(cast.bob)
    cast.bob.is_active = False
    cast.bob.save()
    with pytest.raises(Conflict):
        create_token(actor=actor, name="x", scopes=[Scope.READ], expires_in_days=1, now=NOW)


def test_the_list_is_paged_newest_first() -> None:
    cast = a_cast()
    ids = [str(a_token(cast.bob)[0].pk) for _ in range(3)]
    session = by_session(cast.bob)
    first = session.get("tokens?limit=2").json()
    second = session.get(first["next"].removeprefix("/api/v1/")).json()
    found = [item["id"] for item in first["items"] + second["items"]]
    assert found == sorted(ids, reverse=True)
    assert second["next"] is None
