"""Posts events to webhooks: at least once, with bounded retries, and with each outcome stored."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings as django_settings
from django.db import transaction
from django.db.models import QuerySet

from notices.webhook_bodies import body_of, signature_headers
from notices.webhook_models import (
    EXCERPT_LENGTH_MAX,
    WebhookDelivery,
    WebhookKind,
    WebhookState,
    WebhookTarget,
)
from notices.webhook_owners import tell_of_disabling
from webapi.outgoing import Answer, NoAnswer, UnsafeAddress, post

log = logging.getLogger(__name__)

#: Pauses after failures in seconds, each longer by up to a quarter. After the last one the delivery
#: has failed.
PAUSES_S = (10, 40, 160, 640, 2_560, 3_600, 3_600)
#: A target without a success for so long is disabled at its next failure.
DISABLED_AFTER = timedelta(hours=24)
#: While a target fails, its other deliveries wait for so long, so that it is not called for each.
OTHERS_WAIT = timedelta(seconds=30)
#: How long a worker has a delivery for itself; more than a request takes.
LEASE = timedelta(seconds=60)
#: The status by which a server says that nobody listens there any more.
_GONE = 410

Clock = Callable[[], datetime]
#: Posts a body with headers to a URL: `webapi.outgoing.post`.
Post = Callable[[str, bytes, dict[str, str]], Answer]


def post_safely(url: str, body: bytes, headers: dict[str, str]) -> Answer:
    """Post to a checked address. Raises UnsafeAddress and NoAnswer."""
    return post(url, body, headers, networks=django_settings.WEBHOOK_NETWORKS)


def deliver_next_webhook(
    clock: Clock,
    send: Post = post_safely,
    *,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> bool:
    """Make one delivery that is due, and store the outcome. Return whether one was due."""
    delivery = _claim(clock())
    if delivery is None:
        return False
    target, began = delivery.target, clock()
    reason = _reason_to_end(delivery, began)
    if reason is not None:
        _stored(delivery).update(
            state=WebhookState.FAILED, ended_at=began, error=delivery.error or reason
        )
        return True
    body = body_of(
        target.kind, delivery.event, delivery.data, url=django_settings.PUBLIC_URL, now=began
    )
    headers = {"Content-Type": "application/json", "User-Agent": "Tidegate"}
    if target.kind == WebhookKind.SIGNED:
        headers |= signature_headers(f"msg_{delivery.pk}", body, _secrets(target, began), began)
    answer, error = None, ""
    sent_s = monotonic_s()
    try:
        answer = send(target.url, body, headers)
    except (UnsafeAddress, NoAnswer) as failure:
        error = str(failure)[:EXCERPT_LENGTH_MAX]
    duration_ms = int((monotonic_s() - sent_s) * 1_000)
    _store(delivery, answer, error, began=began, now=clock(), duration_ms=duration_ms)
    return True


def _reason_to_end(delivery: WebhookDelivery, now: datetime) -> str | None:
    """Return why a claimed delivery ends without another try; None for one to send."""
    target = delivery.target
    if target.disabled_at is not None:
        return "The webhook is disabled."
    if target.user is not None and not target.user.is_active:
        return "The owner of the webhook is deactivated."
    if delivery.expires_at <= now:
        return "It was not sent in time."
    if delivery.attempts > len(PAUSES_S) + 1:
        return "The worker died during each try."
    return None


@transaction.atomic
def _claim(now: datetime) -> WebhookDelivery | None:
    """Mark the next due delivery as being sent, also one whose worker died, and return it."""
    due = WebhookDelivery.objects.filter(
        state__in=[WebhookState.PENDING, WebhookState.SENDING], next_at__lte=now
    )
    delivery = (
        due.select_for_update(skip_locked=True, of=("self",))
        .select_related("target__node", "target__user")
        .order_by("next_at", "pk")
        .first()
    )
    if delivery is not None:
        delivery.state = WebhookState.SENDING
        delivery.attempts += 1
        delivery.next_at = now + LEASE
        delivery.save(update_fields=["state", "attempts", "next_at"])
    return delivery


def _secrets(target: WebhookTarget, now: datetime) -> list[bytes]:
    """Return the secrets that sign a message: during a rotation also the one before."""
    secrets = [bytes(target.secret)]
    if target.old_secret_until is not None and target.old_secret_until > now:
        secrets.append(bytes(target.old_secret or b""))
    return secrets


@transaction.atomic
def _store(
    delivery: WebhookDelivery,
    answer: Answer | None,
    error: str,
    *,
    began: datetime,
    now: datetime,
    duration_ms: int,
) -> None:
    is_success = answer is not None and 200 <= answer.status < 300
    if answer is not None and not is_success:
        error = f"The server answered {answer.status}."
    values: dict[str, Any] = {
        "status_code": None if answer is None else answer.status,
        "response_excerpt": "" if answer is None else _excerpt(answer.body),
        "duration_ms": duration_ms,
        "error": error,
    }
    is_over = delivery.attempts > len(PAUSES_S) or (answer is not None and answer.status == _GONE)
    if is_success:
        values |= {"state": WebhookState.SENT, "ended_at": now}
    elif is_over:
        values |= {"state": WebhookState.FAILED, "ended_at": now}
    else:
        values |= {"state": WebhookState.PENDING, "next_at": now + pause_after(delivery)}
    if not _stored(delivery).update(**values):
        return
    # Of the target as it is now: its owner may have changed it meanwhile.
    target = WebhookTarget.objects.select_for_update(of=("self",)).get(pk=delivery.target_id)
    if is_success:
        target.failing_since = None
        target.save(update_fields=["failing_since"])
        return
    log.warning("webhook delivery %s failed: %s", delivery.pk, error)
    target.failing_since = target.failing_since or began
    is_gone = answer is not None and answer.status == _GONE
    if target.disabled_at is None and (is_gone or target.failing_since <= now - DISABLED_AFTER):
        target.disabled_at = now
        target.disabled_reason = (
            "The server answered 410: it takes no messages any more."
            if is_gone
            else "No delivery succeeded for 24 hours."
        )
        tell_of_disabling(target, now)
    target.save(update_fields=["failing_since", "disabled_at", "disabled_reason"])
    others = target.deliveries.filter(state=WebhookState.PENDING).exclude(pk=delivery.pk)
    others.filter(next_at__lt=now + OTHERS_WAIT).update(next_at=now + OTHERS_WAIT)


def pause_after(delivery: WebhookDelivery) -> timedelta:
    """Return the pause after the last try: the longer, the more tries, and spread by up to 25 %."""
    pause_s = PAUSES_S[min(delivery.attempts, len(PAUSES_S)) - 1]
    digest = hashlib.sha256(f"{delivery.pk}/{delivery.attempts}".encode()).digest()
    return timedelta(seconds=pause_s * (1 + digest[0] / 1024))


def _excerpt(body: bytes) -> str:
    """Return the beginning of an answer as text without control characters."""
    text = body[: EXCERPT_LENGTH_MAX * 4].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in text)[:EXCERPT_LENGTH_MAX].strip()


def _stored(delivery: WebhookDelivery) -> QuerySet[WebhookDelivery]:
    """Return the row of this try. A worker that was too slow changes nothing of a later try."""
    return WebhookDelivery.objects.filter(
        pk=delivery.pk, state=WebhookState.SENDING, attempts=delivery.attempts
    )
