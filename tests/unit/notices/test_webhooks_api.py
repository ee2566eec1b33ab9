"""Webhooks over REST: who may manage them, secrets, tests, replays and the log."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.notice_builders import a_new_notice, a_webhook
from builders.portal_builders import NOW
from notices import webhook_targets
from notices.giving import give_notices
from notices.webhook_models import WebhookDelivery, WebhookTarget

pytestmark = pytest.mark.django_db

BODY = {
    "name": "Chat of nlp",
    "kind": "signed",
    "url": "https://hooks.example.org/services/T0/SECRET42",
    "events": ["job_failed", "job_preempting"],
    "node": "ai-company/research/nlp",
}


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def created(cast: Cast, **changes: object) -> Any:
    answer = by_token(cast.nlp_lead).post("webhooks", {**BODY, **changes})
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_a_new_webhook_shows_its_secret_and_never_its_address(cast: Cast) -> None:
    """Against: the whole address in the answer, or in the audit log."""
    shown = created(cast)
    target = WebhookTarget.objects.get()
    secret = base64.b64encode(bytes(target.secret)).decode()
    assert shown == {
        "id": str(target.pk),
        "node": "ai-company/research/nlp",
        "name": "Chat of nlp",
        "kind": "signed",
        "address": "https://hooks.example.org/…ET42",
        "events": ["job_failed", "job_preempting"],
        "created_at": shown["created_at"],
        "failing_since": None,
        "disabled_at": None,
        "disabled_reason": "",
        "old_secret_until": None,
        "version": 1,
        "secret": f"whsec_{secret}",
    }
    (listed,) = by_token(cast.nlp_lead).get("webhooks").json()["items"]
    assert listed == {name: value for name, value in shown.items() if name != "secret"}
    event = AuditEvent.objects.get(action="webhook.created")
    assert event.detail == {
        "name": "Chat of nlp",
        "kind": "signed",
        "address": "https://hooks.example.org/…ET42",
    }
    assert (event.node_path, event.actor) == (cast.nlp.path, cast.nlp_lead.login)


def test_a_repeat_makes_one_webhook_and_shows_no_secret(cast: Cast) -> None:
    """Against: the stored answer holds the secret."""
    caller = by_token(cast.nlp_lead)
    first = caller.post("webhooks", BODY, Idempotency_Key="k").json()
    again = caller.post("webhooks", BODY, Idempotency_Key="k").json()
    assert again == {**first, "secret": ""}
    assert first["secret"].startswith("whsec_")
    assert WebhookTarget.objects.count() == 1


def test_slack_and_teams_have_no_secret(cast: Cast) -> None:
    assert created(cast, kind="slack")["secret"] == ""


@pytest.mark.parametrize(
    ("who", "status"),
    [("alice", 201), ("research_admin", 201), ("bob", 403), ("finance", 403), ("charlie", 404)],
)
def test_who_manages_the_members_makes_webhooks_of_a_node(
    cast: Cast, who: str, status: int
) -> None:
    """Against: everybody who sees the node."""
    assert by_token(getattr(cast, who)).post("webhooks", BODY).status_code == status


def test_a_person_makes_own_webhooks_that_others_do_not_see(cast: Cast) -> None:
    """Not even administrators, as notices are the person's own."""
    own = {name: value for name, value in BODY.items() if name != "node"}
    assert by_token(cast.bob).post("webhooks", own).status_code == 201
    (shown,) = by_token(cast.bob).get("webhooks").json()["items"]
    assert shown["node"] is None
    assert by_token(cast.alice).get("webhooks").json()["items"] == []
    path = f"webhooks/{shown['id']}"
    assert by_token(cast.alice).delete(path).status_code == 404
    assert by_token(cast.alice).get(f"{path}/deliveries").status_code == 404


@pytest.mark.parametrize("scopes", [["read"], ["jobs"], ["quotas"]])
def test_only_an_admin_token_manages_webhooks(cast: Cast, scopes: list[str]) -> None:
    """Against: a stolen token of a job that redirects notices of its owner."""
    target = a_webhook(user=cast.nlp_lead)
    caller = by_token(cast.nlp_lead, scopes)
    assert caller.post("webhooks", BODY).status_code == 403
    own = {name: value for name, value in BODY.items() if name != "node"}
    assert caller.post("webhooks", own).status_code == 403
    assert caller.get("webhooks").json()["items"] == []
    assert caller.delete(f"webhooks/{target.pk}").status_code in (403, 404)
    assert WebhookTarget.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"url": "http://hooks.example.org/"}, "must begin with https://"),
        ({"url": "https://hooks.example.org:22/"}, "must be 443 or 8443"),
        ({"events": []}, "events"),
        ({"events": ["birthday"]}, "birthday"),
        ({"kind": "fax"}, "fax"),
        ({"name": " "}, "must not be empty"),
    ],
)
def test_bad_webhooks_are_refused(cast: Cast, changes: dict[str, Any], sentence: str) -> None:
    answer = by_token(cast.nlp_lead).post("webhooks", {**BODY, **changes})
    assert answer.status_code == 400
    assert sentence in answer.content.decode()
    assert not WebhookTarget.objects.exists()


def test_a_node_has_a_bounded_number(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_targets, "TARGETS_MAX", 1)
    created(cast)
    answer = by_token(cast.nlp_lead).post("webhooks", BODY)
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "There are 1 webhooks already. Remove one first.",
    )


def test_a_change_names_its_version(cast: Cast) -> None:
    """Against: the version is not compared."""
    target = a_webhook(node=cast.nlp)
    caller, path = by_token(cast.nlp_lead), f"webhooks/{target.pk}"
    assert caller.patch(path, {"name": "x"}).status_code == 428
    changed = caller.patch(path, {"name": "Other", "events": ["job_held"]}, If_Match='"v1"')
    assert (changed.json()["name"], changed.json()["events"]) == ("Other", ["job_held"])
    assert changed.headers["ETag"] == '"v2"'
    assert caller.patch(path, {"name": "y"}, If_Match='"v1"').status_code == 412


def test_a_webhook_is_disabled_and_enabled(cast: Cast) -> None:
    """A failure of before does not count after that. Against: failing_since stays."""
    target = a_webhook(node=cast.nlp, failing_since=NOW)
    caller, path = by_token(cast.nlp_lead), f"webhooks/{target.pk}"
    off = caller.patch(path, {"is_enabled": False}, If_Match='"v1"').json()
    assert off["disabled_reason"] == f"{cast.nlp_lead.login} disabled it."
    assert caller.post(f"{path}/test", None).status_code == 409
    on = caller.patch(path, {"is_enabled": True}, If_Match='"v2"').json()
    assert (on["disabled_at"], on["disabled_reason"], on["failing_since"]) == (None, "", None)


def test_a_rotation_shows_the_new_secret_and_keeps_the_old_one(cast: Cast) -> None:
    target = a_webhook(node=cast.nlp)
    before = bytes(target.secret)
    answer = by_token(cast.nlp_lead).post(f"webhooks/{target.pk}/secret", None).json()
    target.refresh_from_db()
    assert answer["secret"] == f"whsec_{base64.b64encode(bytes(target.secret)).decode()}"
    assert (bytes(target.old_secret or b""), bytes(target.secret) != before) == (before, True)
    assert target.old_secret_until is not None


def test_a_test_message_is_planned(cast: Cast) -> None:
    target = a_webhook(node=cast.nlp)
    answer = by_token(cast.nlp_lead).post(f"webhooks/{target.pk}/test", None)
    assert (answer.status_code, answer.json()["event"], answer.json()["state"]) == (
        202,
        "test",
        "pending",
    )
    assert answer.json()["sentence"] == "This is a test message of the webhook hook."


def test_deliveries_are_listed_and_replayed(cast: Cast) -> None:
    """With the same id. One that waits is not replayed. Against: a second row."""
    target = a_webhook(node=cast.nlp)
    give_notices([a_new_notice(None, node_path=cast.nlp.path)])
    caller = by_token(cast.nlp_lead)
    path = f"webhooks/{target.pk}/deliveries"
    (shown,) = caller.get(path).json()["items"]
    assert (shown["state"], shown["next_at"]) == ("pending", "2026-11-21T12:00:00Z")
    replay = f"webhook-deliveries/{shown['id']}/replay"
    assert caller.post(replay, None).status_code == 409
    WebhookDelivery.objects.update(
        state="failed", ended_at=NOW, error="The server answered 500.", attempts=8, status_code=500
    )
    (failed,) = caller.get(f"{path}?state=failed").json()["items"]
    assert (failed["next_at"], failed["status_code"]) == (None, 500)
    assert caller.post(replay, None).status_code == 202
    delivery = WebhookDelivery.objects.get()
    assert (str(delivery.pk), delivery.state, delivery.attempts) == (shown["id"], "pending", 0)
    assert by_token(cast.bob).post(replay, None).status_code == 404


def test_a_removed_webhook_goes_with_its_deliveries(cast: Cast) -> None:
    target = a_webhook(node=cast.nlp)
    give_notices([a_new_notice(None, node_path=cast.nlp.path)])
    assert by_token(cast.nlp_lead).delete(f"webhooks/{target.pk}").status_code == 204
    assert not WebhookDelivery.objects.exists()
    assert AuditEvent.objects.filter(action="webhook.removed").count() == 1
