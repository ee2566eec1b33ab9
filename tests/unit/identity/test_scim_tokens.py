"""Tokens for SCIM, and the settings of SCIM."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import a_token, as_nobody, by_token, with_secret
from builders.cast import Cast, a_cast
from builders.portal_builders import NOW
from builders.scim_builders import ScimCaller, a_scim_caller, a_scim_token
from identity.models import ScimSettings, ScimToken
from identity.scim.tokens import (
    LIVE_TOKENS_MAX,
    end_scim_token,
    make_scim_token,
    replace_scim_token,
    scim_token_by_secret,
)
from portal.known_callers import is_known
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unauthenticated
from tenants.access import actor_of
from tenants.tokens import digest_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast() -> Cast:
    """The people of ai-company and rival-lab."""
    return a_cast()


def tokens_at(cast: Cast) -> str:
    return f"organizations/{cast.organization.pk}/scim/tokens"


def made(cast: Cast, **values: Any) -> tuple[ScimToken, str]:
    return make_scim_token(
        **{
            "actor": actor_of(cast.alice),
            "organization_id": cast.organization.pk,
            "name": "Okta",
            "expires_in_days": 30,
            "now": NOW,
            **values,
        }
    )


def test_a_secret_is_shown_once_and_stored_as_its_digest(cast: Cast) -> None:
    """Against: the secret in a later answer, in the table or in the audit log."""
    alice = by_token(cast.alice)
    body = {"name": "Okta", "expires_in_days": 365}
    answer = alice.post(tokens_at(cast), body, Idempotency_Key="k1")
    secret = answer.json()["secret"]
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert secret.startswith("tds_")
    assert len(secret) == 40
    row = ScimToken.objects.get()
    assert (bytes(row.digest), row.prefix) == (digest_of(secret), secret[:12])
    assert row.expires_at - row.created_at == timedelta(days=365)
    repeated = alice.post(tokens_at(cast), body, Idempotency_Key="k1")
    assert repeated.json() == {**answer.json(), "secret": None}
    assert secret not in str(alice.get(tokens_at(cast)).json())
    event = AuditEvent.objects.get(action="scim_token_created")
    assert (event.actor, event.detail["prefix"]) == ("alice@ai-company", secret[:12])
    assert secret not in str(event.detail)
    assert ScimCaller(secret).send("GET", "Users").status_code == 200


def test_a_token_needs_an_expiry_of_at_most_a_year(cast: Cast) -> None:
    """Against: a token without an end."""
    alice = by_token(cast.alice)
    assert alice.post(tokens_at(cast), {"name": "Okta"}).status_code == 400
    for days in (0, 366):
        with pytest.raises(InvalidRequest, match="from 1 to 365"):
            made(cast, expires_in_days=days)
    token, _ = made(cast)
    with pytest.raises(IntegrityError, match="lives_a_year"), transaction.atomic():
        ScimToken.objects.filter(pk=token.pk).update(expires_at=NOW + timedelta(days=367))
    with pytest.raises(IntegrityError, match="null"), transaction.atomic():
        ScimToken.objects.filter(pk=token.pk).update(expires_at=None)


def test_a_token_works_until_it_expires_or_ends(cast: Cast) -> None:
    """Against: an expiry that is not compared."""
    token, secret = made(cast, expires_in_days=1)
    last = NOW + timedelta(days=1) - timedelta(seconds=1)
    assert scim_token_by_secret(secret, now=last) == token
    with pytest.raises(Unauthenticated, match="has expired"):
        scim_token_by_secret(secret, now=NOW + timedelta(days=1))
    end_scim_token(actor=actor_of(cast.alice), token_id=token.pk, now=NOW)
    with pytest.raises(Unauthenticated, match="was ended"):
        scim_token_by_secret(secret, now=NOW)
    with pytest.raises(Unauthenticated, match="begins with tds_"):
        scim_token_by_secret(secret[:-1] + ("a" if secret[-1] != "a" else "b"), now=NOW)
    end_scim_token(actor=actor_of(cast.alice), token_id=token.pk, now=NOW)
    assert AuditEvent.objects.filter(action="scim_token_ended").count() == 1


def test_a_replaced_token_works_as_long_as_the_overlap(cast: Cast) -> None:
    """Against: an overlap that lengthens a life."""
    alice = actor_of(cast.alice)
    token, old = made(cast, expires_in_days=30)
    new_token, new = replace_scim_token(
        actor=alice, token_id=token.pk, overlap_s=3_600, now=NOW + timedelta(days=10)
    )
    assert (new_token.name, new_token.expires_at) == ("Okta", NOW + timedelta(days=40))
    end = NOW + timedelta(days=10, hours=1)
    assert scim_token_by_secret(old, now=end - timedelta(seconds=1)) == token
    assert scim_token_by_secret(new, now=end) == new_token
    with pytest.raises(Unauthenticated, match="has expired"):
        scim_token_by_secret(old, now=end)
    with pytest.raises(Conflict, match="has ended"):
        replace_scim_token(actor=alice, token_id=token.pk, overlap_s=0, now=end)
    with pytest.raises(InvalidRequest, match="from 0 to 604800"):
        replace_scim_token(actor=alice, token_id=new_token.pk, overlap_s=604_801, now=end)
    replace_scim_token(actor=alice, token_id=new_token.pk, overlap_s=0, now=end)
    with pytest.raises(Unauthenticated, match="was ended"):
        scim_token_by_secret(new, now=end)


def test_an_organization_has_a_bounded_number_of_live_tokens(cast: Cast) -> None:
    """Against: no bound; ended tokens that count."""
    tokens = [made(cast)[0] for _ in range(LIVE_TOKENS_MAX)]
    with pytest.raises(Conflict, match="There are 5 live tokens"):
        made(cast)
    end_scim_token(actor=actor_of(cast.alice), token_id=tokens[0].pk, now=NOW)
    made(cast)


def test_a_token_for_scim_works_nowhere_else_and_no_other_token_at_scim(cast: Cast) -> None:
    """Against: SCIM for access tokens; the API for tokens of SCIM."""
    secret = a_scim_token(cast.organization, cast.alice)[1]
    for path in ("tokens", "users", f"organizations/{cast.organization.pk}/scim"):
        assert with_secret(secret).get(path).status_code == 401
    for other in (a_token(cast.alice)[1], a_token(cast.root)[1], "", "tds_"):
        answer = ScimCaller(other).send("GET", "Users")
        assert (answer.status_code, answer.json()["status"]) == (401, "401")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    browser = as_nobody()
    browser.client.force_login(cast.alice)
    answer = browser.client.get("/scim/v2/Users")
    assert answer.status_code == 401
    assert "Send a token for SCIM" in answer.json()["detail"]
    assert browser.client.get("/scim/v2/ServiceProviderConfig").status_code == 401


@pytest.mark.django_db(transaction=True)
def test_large_bodies_are_read_for_known_tokens_only(cast: Cast) -> None:
    """Against: tokens of SCIM unknown to the server, whose groups of 10,000 are then refused."""
    secret = a_scim_token(cast.organization, cast.alice)[1]

    def known(path: str, given: str) -> bool:
        return is_known(
            {
                "type": "http",
                "method": "PATCH",
                "path": path,
                "headers": [(b"authorization", f"Bearer {given}".encode())],
                "query_string": b"",
            }
        )

    assert known("/scim/v2/Groups/1", secret) is True
    assert known("/api/v1/jobs", secret) is False
    assert known("/scim/v2/Groups/1", a_token(cast.alice)[1]) is False


def test_only_those_who_could_be_anybody_there_make_tokens(cast: Cast) -> None:
    """Against: a department's admin, or an admin's token without the scope admin."""
    token, _ = a_scim_token(cast.organization, cast.alice)
    for actor in (actor_of(cast.research_admin), actor_of(cast.alice, ["jobs", "read"])):
        with pytest.raises(Forbidden):
            made(cast, actor=actor)
        with pytest.raises(Forbidden):
            end_scim_token(actor=actor, token_id=token.pk, now=NOW)
    with pytest.raises(NotFound):
        made(cast, actor=actor_of(cast.charlie))
    with pytest.raises(NotFound):
        replace_scim_token(
            actor=actor_of(cast.charlie), token_id=token.pk, overlap_s=0, now=token.created_at
        )


def test_settings_change_with_their_version_and_count_what_was_pushed(cast: Cast) -> None:
    """Against: counts of another organization, or of deleted people."""
    alice, path = by_token(cast.alice), f"organizations/{cast.organization.pk}/scim"
    first = alice.get(path)
    assert first.json() == {
        "base_url": "http://testserver/scim/v2",
        "external_id_claim": "sub",
        "adopts_accounts": False,
        "last_contact_at": None,
        "active_people": 0,
        "deactivated_people": 0,
        "groups": 0,
        "version": 0,
    }
    wanted = {"external_id_claim": "oid", "adopts_accounts": True}
    assert alice.put(path, wanted).status_code == 428
    assert alice.put(path, wanted, If_Match='"v7"').status_code == 412
    changed = alice.put(path, wanted, If_Match=first.headers["ETag"])
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"v1"')
    assert alice.put(path, {**wanted, "external_id_claim": "email"}).status_code == 400
    event = AuditEvent.objects.get(action="scim_set")
    assert event.detail == {
        "external_id_claim": {"before": "sub", "after": "oid"},
        "adopts_accounts": {"before": False, "after": True},
    }
    scim = a_scim_caller(cast.organization, cast.alice)
    people = [scim.push(f"p{number}", active=number != 1)["id"] for number in range(3)]
    scim.send("DELETE", f"Users/{people[2]}")
    scim.push_group("gpu", people[0])
    a_scim_caller(cast.rival, cast.charlie).push("theirs")
    shown = alice.get(path).json()
    counts = (shown["active_people"], shown["deactivated_people"], shown["groups"])
    assert counts == (1, 1, 1)
    assert shown["last_contact_at"] is not None
    with pytest.raises(IntegrityError, match="claim_is_known"), transaction.atomic():
        ScimSettings.objects.update(external_id_claim="email")
