"""Rate cards: an organization's prices. A price that has applied never changes."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Min, Prefetch, Q, QuerySet

from audit.recording import record
from billing.models import RateCard, RateLine, UsageClass
from billing.periods import EARLIEST, LATEST
from clusters.models import Pool
from live.publishing import publish
from primitives.errors import Conflict, FieldError, InvalidRequest
from quotas.models import OrganizationPolicy
from tenants.access import Actor, get_visible, require, visible, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: A million currency units per GPU-hour. With it, no sum comes near the limit of a column.
PRICE_NANO_MAX = 10**15
_CURRENCY = re.compile(r"[A-Z]{3}")


def visible_cards(actor: Actor) -> QuerySet[RateCard]:
    """Return the visible rate cards, with their lines sorted by pool, class and time.

    Users who see costs anywhere in their organization see its prices, because prices explain costs.
    """
    lines = RateLine.objects.select_related("pool").order_by("pool__name", "usage_class", "start")
    own = Q(pk__in=[])
    if actor.prefixes(Permission.VIEW_COSTS) and actor.user.organization_id is not None:
        own = Q(organization_id=actor.user.organization_id)
    return visible(
        actor,
        RateCard.objects.select_related("organization__organizationpolicy").prefetch_related(
            Prefetch("lines", lines)
        ),
        Permission.VIEW_COSTS,
        path_field="organization__path",
        own=own,
    )


def time_zone_of(card: RateCard) -> str:
    """Return the organization's time zone (IANA). No query for a card of `visible_cards`."""
    policy = getattr(card.organization, "organizationpolicy", None)
    return (policy or OrganizationPolicy()).time_zone


def may_edit(actor: Actor, card: RateCard) -> bool:
    """Return whether the actor may change the prices of a visible card."""
    return actor.holds(Permission.MANAGE_PRICES, card.organization.path)


@transaction.atomic
def create_rate_card(organization: str, currency: str, *, actor: Actor, now: datetime) -> RateCard:
    """Create an empty rate card in `currency` (ISO 4217) for the organization at this path.

    Raises NotFound or Forbidden by the actor's rights. Raises InvalidRequest for a node that is no
    organization or an invalid currency code, and Conflict if there is a rate card already.
    """
    node = visible_node(actor, organization)
    if node.kind != NodeKind.ORGANIZATION:
        raise InvalidRequest(
            f"{node.display_path} is a {node.kind}. Only organizations have a rate card.",
            errors=[FieldError("/organization", "is not an organization")],
        )
    require(actor, Permission.MANAGE_PRICES, node)
    if not _CURRENCY.fullmatch(currency):
        raise InvalidRequest(
            "currency must be three capital letters (ISO 4217), for example EUR.",
            errors=[FieldError("/currency", "is not a currency code")],
        )
    try:
        with transaction.atomic():
            card = RateCard.objects.create(organization=node, currency=currency)
    except IntegrityError as error:
        raise Conflict(f"{node.display_path} has a rate card already. Add lines to it.") from error
    _record("rate_card.created", card, card.pk, {"currency": currency}, actor=actor, now=now)
    return card


@transaction.atomic
def add_rate_line(
    card_id: UUID,
    *,
    pool_name: str,
    usage_class: UsageClass,
    price_nano: int,
    start: datetime | None,
    end: datetime | None,
    ends_current: bool = False,
    actor: Actor,
    now: datetime,
) -> RateLine:
    """Add a price per GPU-hour during `[start, end)`. Without `start`, it applies from `now` on.

    With `ends_current`, the price that applies at `start` ends there, and without `end` the new
    one lasts until the next scheduled price. Otherwise, without `end`, it has no end yet. It may
    start in the past where there was no price: that is a correction, and reports name it.

    Raises NotFound or Forbidden by the actor's rights, and InvalidRequest for an unknown pool, or a
    price or time out of range. Raises Conflict, with the conflicting line, where there is a price
    already.
    """
    card = _changeable(card_id, actor)
    now = now.replace(microsecond=0)
    start = now if start is None else start
    pool = Pool.objects.filter(name=pool_name).first()
    errors = []
    if pool is None:
        errors.append(FieldError("/pool", "is not a pool"))
    if not 0 <= price_nano <= PRICE_NANO_MAX:
        errors.append(FieldError("/price_nano", f"must be from 0 to {PRICE_NANO_MAX}"))
    if not EARLIEST <= start < LATEST:
        errors.append(FieldError("/start", "must be in the years 2000 to 2099"))
    if end is not None and not start < end <= LATEST:
        errors.append(FieldError("/end", "must be after start and before 2100"))
    if pool is None or errors:
        raise InvalidRequest(
            "; ".join(f"{error.pointer[1:]} {error.detail}" for error in errors) + ".",
            errors=errors,
        )
    same = card.lines.select_related("pool").filter(pool=pool, usage_class=usage_class)
    if ends_current:
        end = end or same.filter(start__gt=start).aggregate(Min("start"))["start__min"]
        current = same.filter(Q(end=None) | Q(end__gt=start), start__lt=start).first()
        if current is not None and start >= now:
            _set_end(card, current, start, actor=actor, now=now)
    overlapping = same.filter(Q(end=None) | Q(end__gt=start))
    if end is not None:
        overlapping = overlapping.filter(start__lt=end)
    if (in_the_way := overlapping.order_by("start").first()) is not None:
        raise Conflict(_refusal(in_the_way, start, now), conflicts_with=str(in_the_way.pk))
    line = RateLine.objects.create(
        card=card,
        pool=pool,
        usage_class=usage_class,
        price_nano=price_nano,
        start=start,
        end=end,
        added_at=now,
        added_by=actor.user.login,
    )
    _record("rate_line.added", card, line.pk, _values(line), actor=actor, now=now)
    return line


def _refusal(line: RateLine, start: datetime, now: datetime) -> str:
    """Return why a price from `start` on conflicts with `line`, and what to do about it."""
    found = (
        f"{line.usage_class} {line.pool.name} has a price from {_text(line.start)} to "
        f"{_text(line.end)}. "
    )
    if start < min(now, line.start):
        return found + f"End yours at {_text(line.start)} or earlier, or choose another start."
    if start < now:
        return found + "What has applied never changes. Choose a start from now on."
    if start == line.start:
        return found + "Cancel that scheduled price first, or choose another start."
    return found + "End that price first, or choose another period."


@transaction.atomic
def end_rate_line(
    card_id: UUID, line_id: UUID, end: datetime | None, *, actor: Actor, now: datetime
) -> RateLine:
    """End a price at `end` (None: `now`), not in the past, so that no past report changes.

    Raises NotFound or Forbidden by the actor's rights. Raises Conflict if `end` is in the past, not
    after the line's start, or after its present end.
    """
    card = _changeable(card_id, actor)
    line = _line_of(card, line_id, actor)
    now = now.replace(microsecond=0)
    end = now if end is None else end
    if end < now or end <= line.start or (line.end is not None and end > line.end) or end > LATEST:
        raise Conflict(
            f"This price applies from {_text(line.start)} to {_text(line.end)}. Its new end must "
            "be earlier, but after its start and not in the past.",
        )
    _set_end(card, line, end, actor=actor, now=now)
    return line


@transaction.atomic
def cancel_rate_line(card_id: UUID, line_id: UUID, *, actor: Actor, now: datetime) -> None:
    """Delete a scheduled price. A price that ends where it starts lasts until its end instead.

    Raises NotFound or Forbidden by the actor's rights, and Conflict for a price that has started.
    """
    card = _changeable(card_id, actor)
    line = _line_of(card, line_id, actor)
    if line.start <= now:
        raise Conflict(
            f"This price applies since {_text(line.start)}, so it cannot be cancelled. End it "
            "instead."
        )
    before = (
        card.lines.filter(pool=line.pool, usage_class=line.usage_class, end=line.start)
        .select_related("pool")
        .first()
    )
    _record("rate_line.cancelled", card, line.pk, _values(line), actor=actor, now=now)
    line.delete()
    if before is not None:
        before.end = line.end
        before.save(update_fields=["end"])
        _record("rate_line.extended", card, before.pk, _values(before), actor=actor, now=now)


def _set_end(card: RateCard, line: RateLine, end: datetime, *, actor: Actor, now: datetime) -> None:
    line.end = end
    line.save(update_fields=["end"])
    _record("rate_line.ended", card, line.pk, _values(line), actor=actor, now=now)


def _line_of(card: RateCard, line_id: UUID, actor: Actor) -> RateLine:
    return get_visible(
        actor,
        card.lines.select_related("pool"),
        Permission.VIEW_COSTS,
        path_field="card__organization__path",
        pk=line_id,
    )


def _changeable(card_id: UUID, actor: Actor) -> RateCard:
    """Return the card, locked, so that its changes happen one after the other."""
    card = get_visible(
        actor,
        RateCard.objects.select_related("organization").select_for_update(of=("self",)),
        Permission.VIEW_COSTS,
        path_field="organization__path",
        pk=card_id,
    )
    require(actor, Permission.MANAGE_PRICES, card.organization)
    return card


def _text(moment: datetime | None) -> str:
    return "further notice" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _values(line: RateLine) -> dict[str, object]:
    return {
        "pool": line.pool.name,
        "usage_class": str(line.usage_class),
        "price_nano": line.price_nano,
        "start": line.start.isoformat(),
        "end": None if line.end is None else line.end.isoformat(),
    }


def _record(
    action: str,
    card: RateCard,
    subject_id: UUID,
    detail: dict[str, object],
    *,
    actor: Actor,
    now: datetime,
) -> None:
    organization: Node = card.organization
    record(
        action=action,
        subject_kind=action.partition(".")[0],
        subject_id=subject_id,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=organization.pk,
        node_path=organization.path,
        detail=detail,
        request_id=current_request_id(),
    )
    publish("reports", organization_id=organization.pk)
