"""Webhooks of nodes and people: who may manage them, their secrets, tests and replays."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings as django_settings
from django.db import transaction
from django.db.models import Q, QuerySet

from audit.recording import record
from notices.webhook_models import SECRET_BYTES, WebhookDelivery, WebhookState, WebhookTarget
from notices.webhook_owners import MANAGES
from notices.webhook_queue import GIVEN_UP_AFTER, WebhookEvent, data_of
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from tenants.access import Actor, under, visible_node
from tenants.models import Node
from tenants.names import clean_name
from webapi.middleware import current_request_id
from webapi.outgoing import UnsafeAddress, check_url
from webapi.preconditions import refuse_stale

#: The most targets of a node, and of a person.
TARGETS_MAX = 20
NAME_LENGTH_MAX = 100
#: How long a replaced secret still signs messages.
OLD_SECRET_FOR = timedelta(hours=24)
#: The event of a test, which no target chooses.
TEST = "test"


def visible_targets(actor: Actor) -> QuerySet[WebhookTarget]:
    """Return the actor's own targets, and those of nodes whose members the actor manages."""
    shown = under(actor.prefixes(MANAGES), "node__path")
    if actor.user.is_active and actor.permits(MANAGES):
        shown |= Q(user=actor.user)
    return WebhookTarget.objects.filter(shown).select_related("node", "user")


def visible_deliveries(actor: Actor, target_id: UUID) -> QuerySet[WebhookDelivery]:
    """Return the deliveries to a target. Raises NotFound."""
    return WebhookDelivery.objects.filter(target=_found(target_id, actor))


def shown_address(url: str) -> str:
    """Return the scheme, the host and the last characters of a URL, whose path is a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…{url[-4:]}"


@transaction.atomic
def create_target(
    *,
    actor: Actor,
    node_path: str | None,
    name: str,
    kind: str,
    url: str,
    events: Sequence[str],
    now: datetime,
) -> WebhookTarget:
    """Create a target of a node, or without one of the actor.

    Raises NotFound, Forbidden, InvalidRequest for an address that may not be called, and Conflict
    where there are 20 already.
    """
    _require_scope(actor)
    node = None if node_path is None else visible_node(actor, node_path, MANAGES)
    if node is not None:
        # Locked, so that two requests do not pass the bound together.
        Node.objects.select_for_update().get(pk=node.pk)
    owner = {"node": node} if node is not None else {"user": actor.user}
    if WebhookTarget.objects.filter(**owner).count() >= TARGETS_MAX:
        raise Conflict(f"There are {TARGETS_MAX} webhooks already. Remove one first.")
    target = WebhookTarget.objects.create(
        **owner,
        name=clean_name(name, length_max=NAME_LENGTH_MAX),
        kind=kind,
        url=_checked(url),
        events=sorted(set(events)),
        secret=secrets.token_bytes(SECRET_BYTES),
        created_at=now,
    )
    _record("webhook.created", target, actor, now, {"kind": kind, "address": shown_address(url)})
    return target


@transaction.atomic
def change_target(
    target_id: UUID,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    if_version: int,
    now: datetime,
) -> WebhookTarget:
    """Change name, url, events or whether it is enabled, on the version that the actor has seen.

    Raises NotFound, Forbidden, InvalidRequest and PreconditionFailed.
    """
    target = _locked(target_id, actor)
    refuse_stale(if_version, target.version, body=None)
    detail = dict(changes)
    if "name" in changes:
        target.name = clean_name(changes["name"], length_max=NAME_LENGTH_MAX)
    if "url" in changes:
        target.url = _checked(changes["url"])
        target.failing_since = None
        detail["url"] = shown_address(target.url)
    if "events" in changes:
        target.events = sorted(set(changes["events"]))
    match changes.get("is_enabled"):
        case True:
            target.disabled_at, target.disabled_reason, target.failing_since = None, "", None
        case False if target.disabled_at is None:
            target.disabled_at = now
            target.disabled_reason = f"{actor.user.login} disabled it."
    target.version += 1
    target.save()
    _record("webhook.changed", target, actor, now, detail)
    return target


@transaction.atomic
def rotate_secret(target_id: UUID, *, actor: Actor, now: datetime) -> WebhookTarget:
    """Give the target a new secret. For 24 hours the old one signs messages, too."""
    target = _locked(target_id, actor)
    target.old_secret = target.secret
    target.old_secret_until = now + OLD_SECRET_FOR
    target.secret = secrets.token_bytes(SECRET_BYTES)
    target.version += 1
    target.save()
    _record("webhook.secret_rotated", target, actor, now, {})
    return target


@transaction.atomic
def remove_target(target_id: UUID, *, actor: Actor, now: datetime) -> None:
    """Remove a target with its deliveries. Raises NotFound and Forbidden."""
    target = _locked(target_id, actor)
    _record("webhook.removed", target, actor, now, {"address": shown_address(target.url)})
    target.delete()


@transaction.atomic
def send_test(target_id: UUID, *, actor: Actor, now: datetime) -> WebhookDelivery:
    """Plan the delivery of a test message. Raises Conflict for a disabled target."""
    target = _locked(target_id, actor)
    _refuse_disabled(target)
    event = WebhookEvent(
        event=TEST,
        key=f"test:{now.isoformat()}",
        subject_kind="webhook",
        subject_id=str(target.pk),
        sentence=f"This is a test message of the webhook {target.name}.",
        link="/notices/webhooks",
        at=now,
        deadline=None,
        node_path="" if target.node is None else target.node.path,
    )
    return WebhookDelivery.objects.create(
        target=target,
        event=event.event,
        key=event.key,
        data=data_of(event),
        created_at=now,
        next_at=now,
        expires_at=now + GIVEN_UP_AFTER,
    )


@transaction.atomic
def replay(delivery_id: UUID, *, actor: Actor, now: datetime) -> WebhookDelivery:
    """Send a delivery that has ended again, with the same id.

    Raises NotFound, Forbidden, and Conflict for one that still waits, or a disabled target.
    """
    found = WebhookDelivery.objects.filter(pk=delivery_id, target__in=visible_targets(actor))
    first = found.first()
    if first is None:
        raise NotFound("There is no such delivery that you can see.")
    target = _locked(first.target_id, actor)
    _refuse_disabled(target)
    delivery = WebhookDelivery.objects.select_for_update().get(pk=delivery_id)
    if delivery.ended_at is None:
        raise Conflict("The delivery still waits, and is sent without a replay.")
    delivery.state = WebhookState.PENDING
    delivery.attempts, delivery.ended_at, delivery.error = 0, None, ""
    delivery.next_at, delivery.expires_at = now, now + GIVEN_UP_AFTER
    delivery.save()
    _record("webhook.replayed", target, actor, now, {"delivery": str(delivery.pk)})
    return delivery


def _refuse_disabled(target: WebhookTarget) -> None:
    if target.disabled_at is not None:
        raise Conflict("The webhook is disabled. Enable it first.")


def _found(target_id: UUID, actor: Actor) -> WebhookTarget:
    target = visible_targets(actor).filter(pk=target_id).first()
    if target is None:
        raise NotFound("There is no such webhook that you can see.")
    return target


def _locked(target_id: UUID, actor: Actor) -> WebhookTarget:
    _require_scope(actor)
    _found(target_id, actor)
    rows = visible_targets(actor).select_for_update(of=("self",))
    target = rows.filter(pk=target_id).first()
    if target is None:
        raise NotFound("There is no such webhook any more.")
    return target


def _require_scope(actor: Actor) -> None:
    """Raise Forbidden for a token that may not manage members, also for the own webhooks.

    A stolen token of a job must not redirect the notices of its owner.
    """
    if not actor.permits(MANAGES):
        raise Forbidden(
            "Manage webhooks in the browser, or with a token of the scope admin.",
            permission=MANAGES.value,
        )


def _checked(url: str) -> str:
    try:
        check_url(url, django_settings.WEBHOOK_NETWORKS)
    except UnsafeAddress as refusal:
        raise InvalidRequest(
            str(refusal), errors=[FieldError("/url", "is no address that may be called")]
        ) from refusal
    return url


def _record(
    action: str, target: WebhookTarget, actor: Actor, now: datetime, detail: Mapping[str, Any]
) -> None:
    node = target.node
    record(
        action=action,
        subject_kind="webhook",
        subject_id=target.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=actor.user.organization_id if node is None else node.organization_id,
        node_path=(actor.organization_path or "") if node is None else node.path,
        detail={"name": target.name, **detail},
        request_id=current_request_id(),
    )
