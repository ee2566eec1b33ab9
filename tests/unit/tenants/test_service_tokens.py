"""Service accounts: who manages one makes, lists, replaces and revokes its tokens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import a_token, by_session, by_token, with_secret
from builders.cast import a_cast
from tenants.models import AccessToken

pytestmark = pytest.mark.django_db

ROBOT = "robot@ai-company"


def a_body(**changes: Any) -> dict[str, Any]:
    return {
        "name": "ci",
        "scopes": ["jobs"],
        "expires_in_days": 30,
        "user": ROBOT,
        **changes,
    }


def test_the_lead_of_its_team_makes_a_token_that_works() -> None:
    cast = a_cast()

    answer = by_session(cast.nlp_lead).post("tokens", a_body())

    assert answer.status_code == 201
    body = answer.json()
    assert (body["user"], body["made_by"]) == (ROBOT, "nlp-lead@ai-company")
    session = with_secret(body["secret"]).get("session").json()
    assert session["user"]["login"] == ROBOT
    event = AuditEvent.objects.get(action="token_created")
    assert (event.actor, event.node_path) == ("nlp-lead@ai-company", "ai-company/")
    assert event.detail == {
        "user": ROBOT,
        "name": "ci",
        "prefix": body["secret"][:12],
        "scopes": ["jobs"],
    }


@pytest.mark.parametrize(
    ("who", "status"),
    [
        ("root", 201),
        ("alice", 201),
        ("research_admin", 201),
        ("nlp_lead", 201),
        ("production_admin", 403),
        ("auditor", 403),
        ("finance", 404),
        ("bob", 404),
        ("charlie", 404),
    ],
)
def test_who_makes_and_lists_its_tokens(who: str, status: int) -> None:
    cast = a_cast()
    caller = by_session(getattr(cast, who))

    made = caller.post("tokens", a_body())
    listed = caller.get(f"tokens?user={ROBOT}")

    assert made.status_code == status
    assert listed.status_code == (200 if status == 201 else status)
    assert AccessToken.objects.count() == (1 if status == 201 else 0)


def test_it_is_listed_replaced_and_revoked() -> None:
    cast = a_cast()
    lead = by_session(cast.nlp_lead)
    old = lead.post("tokens", a_body()).json()
    assert [item["id"] for item in lead.get(f"tokens?user={ROBOT}").json()["items"]] == [old["id"]]
    assert lead.get("tokens").json()["items"] == []

    new = lead.post(f"tokens/{old['id']}/rotate", {})

    assert new.status_code == 201
    assert new["Cache-Control"] == "no-store"
    body = new.json()
    assert (body["name"], body["scopes"], body["user"]) == ("ci", ["jobs"], ROBOT)
    assert with_secret(old["secret"]).get("session").status_code == 401
    assert with_secret(body["secret"]).get("session").status_code == 200
    assert lead.delete(f"tokens/{body['id']}").status_code == 204
    assert with_secret(body["secret"]).get("session").status_code == 401
    actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == [
        "token_created",
        "token_revoked",
        "token_rotated",
        "token_created",
        "token_revoked",
    ]


def test_an_overlap_lets_the_old_one_go_on_for_that_long() -> None:
    cast = a_cast()
    lead = by_session(cast.nlp_lead)
    old = lead.post("tokens", a_body()).json()

    new = lead.post(f"tokens/{old['id']}/rotate", {"overlap_s": 3_600}).json()

    assert with_secret(old["secret"]).get("session").status_code == 200
    ends, begins = (
        datetime.fromisoformat(text)
        for text in (
            lead.get(f"tokens?user={ROBOT}").json()["items"][1]["expires_at"],
            new["created_at"],
        )
    )
    assert ends - begins == timedelta(hours=1)
    lifetime = datetime.fromisoformat(new["expires_at"]) - begins
    assert lifetime == timedelta(days=30)


@pytest.mark.parametrize("overlap_s", [-1, 7 * 86_400 + 1, "1h", None, True])
def test_an_overlap_is_seconds_up_to_a_week(overlap_s: Any) -> None:
    cast = a_cast()
    token, secret = a_token(cast.service)
    answer = by_session(cast.alice).post(f"tokens/{token.pk}/rotate", {"overlap_s": overlap_s})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/overlap_s"
    assert with_secret(secret).get("session").status_code == 200


def test_one_that_has_ended_is_not_replaced() -> None:
    cast = a_cast()
    token, _ = a_token(cast.service)
    alice = by_session(cast.alice)
    assert alice.delete(f"tokens/{token.pk}").status_code == 204
    answer = alice.post(f"tokens/{token.pk}/rotate", {})
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "The token a token has ended. Create a new one.",
    )


def test_all_tokens_of_an_organization_are_listed_by_who_manages_it() -> None:
    cast = a_cast()
    mine, theirs = a_token(cast.bob)[0], a_token(cast.service)[0]
    a_token(cast.charlie)
    a_token(cast.root)
    for user in (cast.alice, cast.root):
        answer = by_session(user).get("tokens?organization=ai-company")
        assert [item["id"] for item in answer.json()["items"]] == [str(theirs.pk), str(mine.pk)]
    assert by_session(cast.nlp_lead).get("tokens?organization=ai-company").status_code == 403
    assert by_session(cast.charlie).get("tokens?organization=ai-company").status_code == 404
    both = by_session(cast.alice).get("tokens?organization=ai-company&user=x")
    assert both.json()["detail"] == "Give either user or organization, not both."


def test_a_repeated_request_does_not_show_the_secret_again() -> None:
    cast = a_cast()
    token, _ = a_token(cast.service)
    alice = by_session(cast.alice)
    first = alice.post(f"tokens/{token.pk}/rotate", {}, Idempotency_Key="k").json()
    again = alice.post(f"tokens/{token.pk}/rotate", {}, Idempotency_Key="k").json()
    assert first["secret"].startswith("tdg_")
    assert again == {**first, "secret": None}


def test_a_token_makes_none_that_outlives_it() -> None:
    cast = a_cast()
    answer = by_token(cast.alice).post("tokens", a_body(expires_in_days=365))
    token = AccessToken.objects.get(pk=answer.json()["id"])
    assert token.minted_by is not None
    assert token.minted_by.user == cast.alice
    assert token.expires_at <= token.minted_by.expires_at
