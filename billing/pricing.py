"""Rate cards: an organization's prices. A price that has applied never changes."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Prefetch, Q, QuerySet

from audit.recording import record
from billing.dating import Recorder, Rule, add_rule, cancel_rule, end_rule, time_errors
from billing.models import (
    BILLED_S_MAX,
    PRICED_CLASSES,
    Dated,
    PoolTerms,
    PriceMode,
    RateCard,
    RateLine,
    UsageClass,
)
from clusters.models import Pool
from live.publishing import publish
from primitives.errors import Conflict, FieldError, InvalidRequest
from primitives.units import PPM
from quotas.models import PRICE_MULTIPLIER_PPM_MAX, OrganizationPolicy
from tenants.access import Actor, get_visible, require, visible, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: A million currency units per GPU-hour. With it, no sum comes near the limit of a column.
PRICE_NANO_MAX = 10**15
_CURRENCY = re.compile(r"[A-Z]{3}")


class Terms(NamedTuple):
    """The values of `billing.models.PoolTerms`. The defaults are those of a pool without terms."""

    mode: str = PriceMode.PAY_PER_USE.value
    guaranteed_ppm: int = PPM
    borrowed_ppm: int = PPM
    unpaid_ppm: int = PPM
    minimum_s: int = 0
    increment_s: int = 1

    def errors(self) -> list[FieldError]:
        """Return the values that are out of range."""
        ranges = {
            **dict.fromkeys(MULTIPLIERS, (0, PRICE_MULTIPLIER_PPM_MAX)),
            "minimum_s": (0, BILLED_S_MAX),
            "increment_s": (1, BILLED_S_MAX),
        }
        values = self._asdict()
        return [
            FieldError(f"/{name}", f"must be from {least} to {most}")
            for name, (least, most) in ranges.items()
            if not least <= values[name] <= most
        ]


#: The multipliers of the classes that have a price, by the names of their columns.
MULTIPLIERS = tuple(f"{usage_class}_ppm" for usage_class in PRICED_CLASSES)


def visible_cards(actor: Actor) -> QuerySet[RateCard]:
    """Return the visible rate cards, with their lines and terms sorted by pool, class and time.

    Users who see costs anywhere in their organization see its prices, because prices explain costs.
    """
    lines = RateLine.objects.select_related("pool").order_by("pool__name", "usage_class", "start")
    terms = PoolTerms.objects.select_related("pool").order_by("pool__name", "start")
    own = Q(pk__in=[])
    if actor.prefixes(Permission.VIEW_COSTS) and actor.user.organization_id is not None:
        own = Q(organization_id=actor.user.organization_id)
    return visible(
        actor,
        RateCard.objects.select_related("organization__organizationpolicy").prefetch_related(
            Prefetch("lines", lines), Prefetch("terms", terms)
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
        raise Conflict(_has_card(RateCard.objects.get(organization=node), currency)) from error
    _record("rate_card.created", card, card.pk, {"currency": currency}, actor=actor, now=now)
    return card


def _has_card(card: RateCard, currency: str) -> str:
    """Return the refusal of a second card in `currency`, and what to do instead."""
    organization = card.organization.display_path
    if card.currency == currency:
        return f"{organization} has a rate card already. Add lines to it."
    return (
        f"{organization} has a rate card in {card.currency}, and reports and statements keep that "
        f"currency. To charge in {currency}, make a new organization with a rate card in it, and "
        "submit jobs there from a date on."
    )


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

    `ends_current` is that of `billing.dating.add_rule`. Otherwise, without `end`, it has no end
    yet. It may start in the past where there was no price: that is a correction, and reports name
    it.

    Raises NotFound or Forbidden by the actor's rights, and InvalidRequest for an unknown pool, or a
    price or time out of range. Raises Conflict, with the conflicting line, where there is a price
    already.
    """
    card = _changeable(card_id, actor)
    now = now.replace(microsecond=0)
    line = RateLine(
        card=card,
        usage_class=usage_class,
        price_nano=price_nano,
        start=start or now,
        end=end,
        added_at=now,
        added_by=actor.user.login,
    )
    errors = []
    if not 0 <= price_nano <= PRICE_NANO_MAX:
        errors.append(FieldError("/price_nano", f"must be from 0 to {PRICE_NANO_MAX}"))
    _set_pool(line, pool_name, errors)
    return add_rule(
        line,
        _lines_like(line),
        ends_current=ends_current,
        now=now,
        record=_recorder(card, actor, now),
    )


@transaction.atomic
def end_rate_line(
    card_id: UUID, line_id: UUID, end: datetime | None, *, actor: Actor, now: datetime
) -> RateLine:
    """End a price at `end` (None: `now`), not in the past, so that no past report changes.

    Raises NotFound or Forbidden by the actor's rights, and Conflict as `billing.dating.end_rule`.
    """
    card = _changeable(card_id, actor)
    line = _rule_of(card.lines.all(), line_id, actor)
    now = now.replace(microsecond=0)
    end_rule(line, end or now, now=now, record=_recorder(card, actor, now))
    return line


@transaction.atomic
def cancel_rate_line(card_id: UUID, line_id: UUID, *, actor: Actor, now: datetime) -> None:
    """Delete a scheduled price. A price that ends where it starts lasts until its end instead.

    Raises NotFound or Forbidden by the actor's rights, and Conflict for a price that has started.
    """
    card = _changeable(card_id, actor)
    line = _rule_of(card.lines.all(), line_id, actor)
    cancel_rule(line, _lines_like(line), now=now, record=_recorder(card, actor, now))


def _lines_like(line: RateLine) -> QuerySet[RateLine]:
    same = RateLine.objects.filter(card=line.card, pool=line.pool, usage_class=line.usage_class)
    return same.select_related("pool")


@transaction.atomic
def add_terms(
    card_id: UUID,
    *,
    pool_name: str,
    values: Terms,
    start: datetime | None,
    end: datetime | None,
    ends_current: bool = False,
    actor: Actor,
    now: datetime,
) -> PoolTerms:
    """Add terms of a pool during `[start, end)`. Times and refusals are those of `add_rate_line`.

    Raises InvalidRequest also for values out of range, and Conflict also for a past in which the
    pool had prices: those applied as they were.
    """
    card = _changeable(card_id, actor)
    now = now.replace(microsecond=0)
    terms = PoolTerms(
        card=card,
        **values._asdict(),
        start=start or now,
        end=end,
        added_at=now,
        added_by=actor.user.login,
    )
    _set_pool(terms, pool_name, values.errors())
    past_prices = card.lines.filter(Q(end=None) | Q(end__gt=terms.start), pool=terms.pool)
    if terms.start < now and past_prices.filter(start__lt=now).exists():
        raise Conflict(
            f"{terms.pool.name} had prices then. What has applied never changes. Choose a start "
            "from now on."
        )
    return add_rule(
        terms,
        _terms_like(terms),
        ends_current=ends_current,
        now=now,
        record=_recorder(card, actor, now),
    )


@transaction.atomic
def end_terms(
    card_id: UUID, terms_id: UUID, end: datetime | None, *, actor: Actor, now: datetime
) -> PoolTerms:
    """End the terms of a pool at `end` (None: `now`). Raises as `end_rate_line`."""
    card = _changeable(card_id, actor)
    terms = _rule_of(card.terms.all(), terms_id, actor)
    now = now.replace(microsecond=0)
    end_rule(terms, end or now, now=now, record=_recorder(card, actor, now))
    return terms


@transaction.atomic
def cancel_terms(card_id: UUID, terms_id: UUID, *, actor: Actor, now: datetime) -> None:
    """Delete scheduled terms. Terms that end where they start last until their end instead.

    Raises as `cancel_rate_line`.
    """
    card = _changeable(card_id, actor)
    terms = _rule_of(card.terms.all(), terms_id, actor)
    cancel_rule(terms, _terms_like(terms), now=now, record=_recorder(card, actor, now))


def _terms_like(terms: PoolTerms) -> QuerySet[PoolTerms]:
    return PoolTerms.objects.filter(card=terms.card, pool=terms.pool).select_related("pool")


def _set_pool(rule: Dated, pool_name: str, errors: list[FieldError]) -> None:
    """Set the pool of a new rule. Raises InvalidRequest for it, for its times, and for `errors`."""
    pool = Pool.objects.filter(name=pool_name).first()
    found = [] if pool is not None else [FieldError("/pool", "is not a pool")]
    found += [*errors, *time_errors(rule.start, rule.end)]
    if pool is None or found:
        raise InvalidRequest(
            "; ".join(f"{error.pointer[1:]} {error.detail}" for error in found) + ".",
            errors=found,
        )
    rule.pool = pool


def _rule_of(rules: QuerySet[Rule], rule_id: UUID, actor: Actor) -> Rule:
    return get_visible(
        actor,
        rules.select_related("pool"),
        Permission.VIEW_COSTS,
        path_field="card__organization__path",
        pk=rule_id,
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


def _recorder(card: RateCard, actor: Actor, now: datetime) -> Recorder:
    """Return what records the acts on a card's rules."""

    def record_act(act: str, rule: Dated) -> None:
        detail = {
            **rule.detail(),
            "start": rule.start.isoformat(),
            "end": None if rule.end is None else rule.end.isoformat(),
        }
        _record(f"{rule.action}.{act}", card, rule.pk, detail, actor=actor, now=now)

    return record_act


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
