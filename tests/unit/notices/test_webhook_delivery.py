"""Deliveries to webhooks through a real HTTP server: planned, tried again, and never lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from standardwebhooks import Webhook

from builders.api_callers import FAR_AHEAD
from builders.cast import Cast, a_cast
from builders.hook_server import HookServer, a_hook_server
from builders.notice_builders import a_new_notice, a_webhook, told
from builders.portal_builders import NOW
from notices import webhook_queue
from notices.giving import give_notices
from notices.retention import drop_old_deliveries
from notices.webhook_bodies import secret_text
from notices.webhook_delivery import (
    LEASE,
    OTHERS_WAIT,
    PAUSES_S,
    deliver_next_webhook,
    pause_after,
)
from notices.webhook_models import WebhookDelivery, WebhookTarget

pytestmark = pytest.mark.django_db


@pytest.fixture
def hooks(settings: Any) -> Iterator[HookServer]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.1/32"]
    settings.PUBLIC_URL = "https://tidegate.example.org"
    with a_hook_server() as found:
        yield found


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def of_node(path: str, key: str = "job:1", **changes: object) -> Any:
    return a_new_notice(None, key, node_path=path, **changes)


def deliver(now: datetime = NOW) -> int:
    """Make all deliveries that are due; return the number of tries."""
    tries = 0
    while deliver_next_webhook(lambda: now):
        tries += 1
    return tries


def outcomes() -> list[tuple[str, int, int | None, str]]:
    rows = WebhookDelivery.objects.order_by("pk")
    return list(rows.values_list("state", "attempts", "status_code", "error"))


def test_a_node_tells_its_targets_and_those_above(cast: Cast) -> None:
    """Not those beside it, of other events, or disabled. Against: all targets."""
    for name, node, changes in (
        ("nlp", cast.nlp, {}),
        ("research", cast.research, {}),
        ("production", cast.production, {}),
        ("rival", cast.rival, {}),
        ("quiet", cast.nlp, {"events": ["job_started"]}),
        ("off", cast.nlp, {"disabled_at": NOW, "disabled_reason": "x"}),
    ):
        a_webhook(node=node, name=name, **changes)
    a_webhook(user=cast.bob, name="bob")
    give_notices([of_node(cast.nlp.path)])
    rows = WebhookDelivery.objects.order_by("target__name")
    assert list(rows.values_list("target__name", flat=True)) == ["nlp", "research"]
    assert rows[0].data == {
        "event": "job_failed",
        "sentence": "bert failed.",
        "link": "/jobs/1",
        "node": "ai-company/research/nlp",
        "subject_kind": "job",
        "subject_id": "1",
        "at": "2026-11-21T12:00:00Z",
        "deadline": None,
    }


def test_a_person_gets_the_own_new_notices(cast: Cast) -> None:
    """A repeated notice is not sent again. Against: targets of all people."""
    a_webhook(user=cast.bob, name="bob")
    a_webhook(user=cast.alice, name="alice")
    for _ in range(2):
        give_notices([a_new_notice(cast.bob)])
    assert WebhookDelivery.objects.get().target.name == "bob"


def test_a_target_gets_each_event_once(cast: Cast) -> None:
    a_webhook(node=cast.nlp)
    for _ in range(2):
        give_notices([of_node(cast.nlp.path)])
    assert WebhookDelivery.objects.count() == 1


def test_a_target_with_too_many_waiting_gets_no_more(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: no bound."""
    monkeypatch.setattr(webhook_queue, "WAITING_MAX", 1)
    a_webhook(node=cast.nlp, name="full")
    for key in ("1", "2"):
        give_notices([of_node(cast.nlp.path, key)])
    assert list(WebhookDelivery.objects.values_list("key", flat=True)) == ["1"]


def test_a_signed_message_is_verified_by_its_receiver(cast: Cast, hooks: HookServer) -> None:
    """With the new secret and, during the rotation, with the old one."""
    target = a_webhook(
        node=cast.nlp, url=hooks.url, old_secret=b"o" * 32, old_secret_until=FAR_AHEAD
    )
    # A library refuses a message of another day.
    now = datetime.now(UTC)
    give_notices([of_node(cast.nlp.path, at=now)])
    assert deliver(now) == 1
    (request,) = hooks.received
    delivery = WebhookDelivery.objects.get()
    assert request.headers["webhook-id"] == f"msg_{delivery.pk}"
    for secret in (bytes(target.secret), b"o" * 32):
        message = Webhook(secret_text(secret)).verify(request.body, dict(request.headers))
        assert message["data"]["link"] == "https://tidegate.example.org/jobs/1"
    assert (delivery.state, delivery.status_code, delivery.response_excerpt) == ("sent", 200, "ok")


def test_an_ended_rotation_leaves_one_signature(cast: Cast, hooks: HookServer) -> None:
    """Against: the old secret signs for ever."""
    a_webhook(node=cast.nlp, url=hooks.url, old_secret=b"o" * 32, old_secret_until=NOW)
    give_notices([of_node(cast.nlp.path)])
    deliver()
    assert len(hooks.received[0].headers["webhook-signature"].split()) == 1


def test_the_duration_is_that_of_the_request(cast: Cast, hooks: HookServer) -> None:
    """Planted: the difference of two times of the clock, which has whole seconds."""
    a_webhook(node=cast.nlp, url=hooks.url)
    give_notices([of_node(cast.nlp.path)])
    times = iter([7.0, 7.25])
    assert deliver_next_webhook(lambda: NOW, monotonic_s=lambda: next(times))
    assert WebhookDelivery.objects.get().duration_ms == 250


def test_slack_messages_are_not_signed(cast: Cast, hooks: HookServer) -> None:
    a_webhook(node=cast.nlp, url=hooks.url, kind="slack")
    give_notices([of_node(cast.nlp.path)])
    deliver()
    assert "webhook-signature" not in hooks.received[0].headers


def test_a_failure_is_tried_again_with_growing_pauses(cast: Cast, hooks: HookServer) -> None:
    """The same id each time. Then the target counts as well. Against: failing_since stays."""
    target = a_webhook(node=cast.nlp, url=hooks.url)
    hooks.status, hooks.answer = 503, b"busy\x07"
    give_notices([of_node(cast.nlp.path)])
    assert deliver() == 1
    assert outcomes() == [("pending", 1, 503, "The server answered 503.")]
    delivery = WebhookDelivery.objects.get()
    assert delivery.response_excerpt == "busy"
    assert timedelta(seconds=10) <= delivery.next_at - NOW <= timedelta(seconds=12.5)
    target.refresh_from_db()
    assert target.failing_since == NOW
    assert deliver(delivery.next_at - timedelta(milliseconds=1)) == 0
    hooks.status = 204
    assert deliver(delivery.next_at) == 1
    assert outcomes() == [("sent", 2, 204, "")]
    target.refresh_from_db()
    assert target.failing_since is None
    first, second = hooks.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_pauses_are_spread_and_bounded(cast: Cast) -> None:
    """Against: no spread, so that a thousand deliveries come back in one second."""
    target = a_webhook(node=cast.nlp)
    give_notices([of_node(cast.nlp.path, str(i)) for i in range(20)])
    deliveries = list(WebhookDelivery.objects.filter(target=target))
    for attempts, pause_s in enumerate((*PAUSES_S, PAUSES_S[-1]), 1):
        for delivery in deliveries:
            delivery.attempts = attempts
        found = [pause_after(delivery).total_seconds() / pause_s for delivery in deliveries]
        assert min(found) >= 1
        assert max(found) < 1.25
        assert len(set(found)) > 10


def test_a_delivery_is_given_up_after_the_last_pause(cast: Cast, hooks: HookServer) -> None:
    hooks.status = 500
    a_webhook(node=cast.nlp, url=hooks.url)
    give_notices([of_node(cast.nlp.path)])
    now = NOW
    for _ in range(len(PAUSES_S) + 1):
        assert deliver(now) == 1
        now = WebhookDelivery.objects.get().next_at
    assert outcomes() == [("failed", 8, 500, "The server answered 500.")]


def test_a_delivery_is_given_up_after_a_day(cast: Cast, hooks: HookServer) -> None:
    """Against: a message of yesterday, after a worker was down for long."""
    a_webhook(node=cast.nlp, url=hooks.url)
    give_notices([of_node(cast.nlp.path)])
    assert deliver(NOW + timedelta(hours=24)) == 1
    assert outcomes() == [("failed", 1, None, "It was not sent in time.")]
    assert hooks.received == []


def test_a_delivery_that_each_worker_dies_of_is_given_up(cast: Cast, hooks: HookServer) -> None:
    """Against: a message that kills workers for a day."""
    a_webhook(node=cast.nlp, url=hooks.url)
    give_notices([of_node(cast.nlp.path)])
    WebhookDelivery.objects.update(state="sending", attempts=len(PAUSES_S) + 1)
    assert deliver() == 1
    assert outcomes() == [("failed", 9, None, "The worker died during each try.")]
    assert hooks.received == []


def test_nothing_is_sent_for_a_deactivated_person(cast: Cast, hooks: HookServer) -> None:
    """Against: a delivery that was planned before the person left."""
    a_webhook(user=cast.bob, url=hooks.url)
    give_notices([a_new_notice(cast.bob)])
    cast.bob.is_active = False
    cast.bob.save()
    assert deliver() == 1
    assert outcomes() == [("failed", 1, None, "The owner of the webhook is deactivated.")]
    assert hooks.received == []


def test_others_of_a_failing_target_wait(cast: Cast, hooks: HookServer) -> None:
    """Deliveries to another target do not wait. Against: each of a thousand is tried in turn."""
    hooks.status = 500
    a_webhook(node=cast.nlp, url=hooks.url, name="bad")
    a_webhook(node=cast.inference, url=hooks.url.replace("/hook", "/good"), name="good")
    for key in ("1", "2"):
        give_notices([of_node(cast.nlp.path, key), of_node(cast.inference.path, key)])
    assert deliver() == 2
    waiting = WebhookDelivery.objects.filter(attempts=0)
    assert set(waiting.values_list("next_at", flat=True)) == {NOW + OTHERS_WAIT}
    assert {request.path for request in hooks.received} == {"/hook", "/good"}


def test_a_private_address_is_not_called(cast: Cast, hooks: HookServer, settings: Any) -> None:
    """Against: the addresses of the operator are always allowed."""
    settings.WEBHOOK_NETWORKS = []
    url = hooks.url.replace(f"http://127.0.0.1:{hooks.port}", "https://127.0.0.1:8443")
    a_webhook(node=cast.nlp, url=url)
    give_notices([of_node(cast.nlp.path)])
    assert deliver() == 1
    ((state, _, status, error),) = outcomes()
    assert (state, status) == ("pending", None)
    assert error.startswith("127.0.0.1 has the address 127.0.0.1, which is not public.")
    assert hooks.received == []


def test_a_target_that_fails_for_a_day_is_disabled_and_its_owners_told(
    cast: Cast, hooks: HookServer
) -> None:
    """Against: it is disabled at the first failure; nobody is told."""
    hooks.status = 500
    target = a_webhook(node=cast.nlp, url=hooks.url, failing_since=NOW - timedelta(hours=23))
    give_notices([of_node(cast.nlp.path, "1")])
    deliver(NOW)
    target.refresh_from_db()
    assert target.disabled_at is None
    later = NOW + timedelta(hours=1)
    deliver(later)
    target.refresh_from_db()
    assert (target.disabled_at, target.disabled_reason) == (
        later,
        "No delivery succeeded for 24 hours.",
    )
    assert told(cast.nlp_lead) == [
        (
            "webhook_disabled",
            "The webhook hook is disabled. No delivery succeeded for 24 hours. Check its "
            "address, then enable it again.",
        )
    ]
    assert told(cast.alice) == []


def test_a_server_that_is_gone_disables_its_target_at_once(cast: Cast, hooks: HookServer) -> None:
    """410 says that nobody listens any more. Waiting deliveries fail without a call."""
    hooks.status = 410
    a_webhook(user=cast.bob, url=hooks.url)
    give_notices([a_new_notice(cast.bob, "1"), a_new_notice(cast.bob, "2")])
    assert deliver() == 1
    assert deliver(NOW + OTHERS_WAIT) == 1
    assert set(outcomes()) == {
        ("failed", 1, 410, "The server answered 410."),
        ("failed", 1, None, "The webhook is disabled."),
    }
    assert len(hooks.received) == 1
    assert [event for event, _ in told(cast.bob)].count("webhook_disabled") == 1


def test_a_worker_that_dies_after_sending_sends_again(cast: Cast, hooks: HookServer) -> None:
    """At least once, with the same id. Against: a delivery that stays in the state sending."""
    a_webhook(node=cast.nlp, url=hooks.url)
    give_notices([of_node(cast.nlp.path)])
    times = iter([NOW, NOW])
    with pytest.raises(StopIteration):
        deliver_next_webhook(lambda: next(times))
    assert outcomes() == [("sending", 1, None, "")]
    assert deliver(NOW + LEASE - timedelta(seconds=1)) == 0
    assert deliver(NOW + LEASE) == 1
    assert outcomes() == [("sent", 2, 200, "")]
    assert len({request.headers["webhook-id"] for request in hooks.received}) == 1


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"node": None}, "webhook_has_one_owner"),
        ({"kind": "fax"}, "webhook_kind_is_known"),
        ({"old_secret": b"x"}, "webhook_old_secret_has_an_end"),
        ({"disabled_at": NOW}, "webhook_says_why_it_is_disabled"),
        ({"disabled_reason": "x"}, "webhook_says_why_it_is_disabled"),
        ({"name": ""}, "webhook_has_a_name_and_events"),
        ({"events": []}, "webhook_has_a_name_and_events"),
    ],
)
def test_the_database_refuses_a_bad_target(
    cast: Cast, changes: dict[str, Any], constraint: str
) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        a_webhook(**{"node": cast.nlp, **changes})


def test_the_database_refuses_two_owners(cast: Cast) -> None:
    with pytest.raises(IntegrityError, match="webhook_has_one_owner"):
        a_webhook(node=cast.nlp, user=cast.bob)


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"state": "lost"}, "webhook_delivery_says_how_it_ended"),
        ({"state": "sent"}, "webhook_delivery_says_how_it_ended"),
        ({"state": "failed", "ended_at": NOW}, "webhook_delivery_says_how_it_ended"),
        ({"ended_at": NOW}, "webhook_delivery_says_how_it_ended"),
        ({"key": "job:1"}, "webhook_event_is_sent_once"),
    ],
)
def test_the_database_refuses_a_bad_delivery(
    cast: Cast, changes: dict[str, Any], constraint: str
) -> None:
    target: WebhookTarget = a_webhook(node=cast.nlp)
    give_notices([of_node(cast.nlp.path)])
    values = {
        "event": "job_failed",
        "key": "2",
        "data": {},
        "created_at": NOW,
        "next_at": NOW,
        "expires_at": NOW,
        **changes,
    }
    with pytest.raises(IntegrityError, match=constraint):
        WebhookDelivery.objects.create(target=target, **values)


def test_deliveries_go_after_thirty_days(cast: Cast) -> None:
    a_webhook(node=cast.nlp)
    give_notices([of_node(cast.nlp.path)])
    assert drop_old_deliveries(NOW + timedelta(days=30)) == 0
    assert drop_old_deliveries(NOW + timedelta(days=31)) == 1
