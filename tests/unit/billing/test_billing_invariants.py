"""What the database refuses, each rule broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import DateTimeField, Func
from uuid_utils.compat import uuid7

from billing.metering import Grant, register_attempts
from billing.models import (
    ChangedUse,
    MeterAnomaly,
    MeteredAttempt,
    MeteredParty,
    MeterEvent,
    RateCard,
    RateLine,
    UnpaidUse,
    UsageSegment,
)
from builders.billing_builders import LATER, a_grant_of, a_metered_attempt, a_rate_card, at
from builders.portal_builders import a_company, a_pool

pytestmark = pytest.mark.django_db


def refused(constraint: str, act: Callable[[], Any]) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        act()


def test_events_are_told_once_and_completely() -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, 60)

    def event(**values: Any) -> None:
        MeterEvent.objects.create(attempt=attempt, recorded_at=LATER, **values)

    refused("meter_event_once_per_attempt", lambda: event(kind="started", at=at(5)))
    refused("meter_class_has_an_amount", lambda: event(kind="classed", at=at(5)))
    refused("meter_size_has_an_amount", lambda: event(kind="sized", at=at(5)))
    refused("meter_size_has_an_amount", lambda: event(kind="sized", at=at(5), mgpu=0))
    refused("meter_size_has_an_amount", lambda: event(kind="lost", at=at(5), mgpu=1))
    refused("meter_class_has_an_amount", lambda: event(kind="lost", at=at(5), guaranteed_mgpu=1))
    refused("meter_size_has_an_amount", lambda: event(kind="anew", at=at(5), mgpu=1))
    refused("meter_event_kind_is_known", lambda: event(kind="paused", at=at(5)))


def test_what_was_told_is_never_rewritten() -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, 60)
    refused("append-only", lambda: MeterEvent.objects.update(at=at(7)))
    refused("append-only", lambda: MeterEvent.objects.filter(attempt=attempt).delete())
    refused("append-only", lambda: MeteredAttempt.objects.update(mgpu=1))


def test_an_attempt_holds_something() -> None:
    grant = a_grant_of(a_company().nlp)
    values = {
        "job_id": grant.job_id,
        "job_name": "train",
        "number": 1,
        "organization_id": grant.organization_id,
        "team_id": grant.team_id,
        "user_id": grant.user_id,
        "pool_id": grant.pool_id,
        "cluster_id": grant.cluster_id,
        "priority_class": "normal",
    }
    for mgpu in (0, -1, 10**11):
        refused(
            "metered_attempt_holds_gpus",
            lambda mgpu=mgpu: MeteredAttempt.objects.create(
                id=grant.attempt_id, mgpu=mgpu, **values
            ),
        )


def test_what_an_attempt_names_is_there_and_stays() -> None:
    """Planted bugs that died of it: only the first attempt of a statement is looked at; parties
    without a reference to their team; parties that may be deleted."""
    company = a_company()
    attempts = [a_metered_attempt(team, 0, 60) for team in (company.nlp, company.vision)]
    named = ("organization_id", "team_id", "user_id", "pool_id", "cluster_id")
    told = sorted(tuple(getattr(attempt, name) for name in named) for attempt in attempts)
    assert sorted(MeteredParty.objects.values_list(*named)) == told
    refused("append-only", lambda: MeteredParty.objects.all().delete())
    refused("append-only", lambda: MeteredParty.objects.update(pool=a_pool("other")))

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(quote_ident(conname), ', ') FROM pg_constraint "
            "WHERE conrelid = 'billing_meteredparty'::regclass AND contype = 'f'"
        )
        (references,) = cursor.fetchone()

    def remove(table: str, pk: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table} WHERE id = %s", [pk])
            # Of all that refer to it, the parties alone.
            cursor.execute(f"SET CONSTRAINTS {references} IMMEDIATE")

    for attempt in attempts:
        for table, pk in (
            ("tenants_node", attempt.team_id),
            ("tenants_node", attempt.organization_id),
            ("tenants_user", attempt.user_id),
            ("clusters_pool", attempt.pool_id),
            ("clusters_cluster", attempt.cluster_id),
        ):
            refused("billing_meteredparty", lambda table=table, pk=pk: remove(table, pk))

    def register(*grants: Grant) -> None:
        register_attempts(grants, now=LATER)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    grant = a_grant_of(company.nlp)
    for name in named:
        unknown = replace(grant, attempt_id=uuid7(), **{name: uuid7()})
        known = replace(grant, attempt_id=uuid7())
        refused("billing_meteredparty", lambda one=known, two=unknown: register(one, two))


def test_a_second_is_counted_once() -> None:
    attempt = a_metered_attempt(a_company().nlp, 10, 60)

    def segment(start: int, end: int | None, guaranteed: int = 1, borrowed: int = 0) -> None:
        UsageSegment.objects.create(
            attempt=attempt,
            start=at(start),
            end=None if end is None else at(end),
            guaranteed_mgpu=guaranteed,
            borrowed_mgpu=borrowed,
        )

    for start, end in ((59, 61), (0, 11), (20, 30), (0, None), (10, 60)):
        refused("segment_counts_a_second_once", lambda s=start, e=end: segment(s, e))
    refused("segment_has_a_length", lambda: segment(70, 70))
    refused("segment_holds_something", lambda: segment(70, 80, -1))
    # A negative part is refused by the rule on classes, too, which may come first.
    refused("segment_h", lambda: segment(70, 80, 1, -1))
    segment(60, 70)
    segment(0, 10)


def test_each_gpu_second_has_one_class() -> None:
    """No more is unpaid than borrowed, and a fault makes all of it free."""
    attempt = a_metered_attempt(a_company().nlp, 10, 60)

    def segment(**classes: Any) -> None:
        UsageSegment.objects.create(
            attempt=attempt,
            start=at(60),
            end=at(70),
            guaranteed_mgpu=1,
            borrowed_mgpu=2,
            **classes,
        )

    for classes in (
        {"unpaid_mgpu": 3},
        {"unpaid_mgpu": -1},
        {"unpaid_mgpu": 1, "fault": "lost"},
        {"fault": "boredom"},
    ):
        refused("segment_has_one_class_for_each_gpu", lambda given=classes: segment(**given))
    segment(unpaid_mgpu=2)


def test_unpaid_use_counts_a_second_once() -> None:
    attempt = a_metered_attempt(a_company().nlp, 10, 60)

    def unpaid(start: int, end: int, mgpu: int = 1) -> None:
        UnpaidUse.objects.create(attempt=attempt, start=at(start), end=at(end), mgpu=mgpu)

    unpaid(10, 20)
    refused("unpaid_use_counts_a_second_once", lambda: unpaid(19, 30))
    refused("unpaid_use_is_some", lambda: unpaid(20, 30, 0))
    refused("unpaid_use_is_some", lambda: unpaid(20, 20))
    unpaid(20, 30)


def test_changed_use_has_a_length() -> None:
    attempt = a_metered_attempt(a_company().nlp, 10, 60)
    refused(
        "changed_use_is_some",
        lambda: ChangedUse.objects.create(attempt=attempt, start=at(20), end=at(20)),
    )


def test_a_fault_has_a_reason_and_nothing_else_has() -> None:
    attempt = a_metered_attempt(a_company().nlp, 10, None)

    def event(kind: str, reason: str) -> None:
        MeterEvent.objects.create(
            attempt=attempt, kind=kind, at=at(60), reason=reason, recorded_at=LATER
        )

    refused("meter_fault_has_a_reason", lambda: event("fault", ""))
    refused("meter_fault_has_a_reason", lambda: event("fault", "boredom"))
    refused("meter_fault_has_a_reason", lambda: event("ended", "lost"))
    event("fault", "lost")


def test_an_anomaly_is_noted_once_and_for_a_known_reason() -> None:
    attempt = a_metered_attempt(a_company().nlp, 0, None)

    def anomaly(reason: str) -> None:
        MeterAnomaly.objects.create(
            attempt=attempt, kind="ended", reason=reason, at=at(5), recorded_at=LATER
        )

    anomaly("conflict")
    refused("meter_anomaly_noted_once", lambda: anomaly("conflict"))
    refused("meter_anomaly_reason_is_known", lambda: anomaly("boredom"))


def test_an_instant_has_one_price() -> None:
    company = a_company()
    card = a_rate_card(company.organization, {"guaranteed": 5}, start=10, end=20)

    def line(**values: Any) -> None:
        RateLine.objects.create(
            card=card,
            **{
                "pool": a_pool(),
                "usage_class": "guaranteed",
                "price_nano": 1,
                "start": at(20),
                "end": None,
                **values,
            },
        )

    for start, end in ((19, 21), (0, 11), (12, 13), (0, None), (10, 20)):
        refused(
            "rate_has_one_price_at_a_time",
            lambda s=start, e=end: line(start=at(s), end=None if e is None else at(e)),
        )
    refused("rate_price_is_not_negative", lambda: line(price_nano=-1))
    for usage_class in ("stolen", "fault"):
        refused("rate_usage_class_is_known", lambda one=usage_class: line(usage_class=one))
    refused("rate_line_has_a_length", lambda: line(end=at(20)))
    with pytest.raises(DatabaseError), transaction.atomic():  # a range that runs backwards
        line(end=at(19))
    line()
    line(usage_class="borrowed", start=at(15))
    line(usage_class="unpaid", start=at(15))
    line(pool=a_pool("a100"), start=at(15))


def test_a_price_changes_only_its_end_and_stays_after_its_start() -> None:
    """Against: a price changed for use that is charged, or deleted with it."""
    card = a_rate_card(a_company().organization, {"guaranteed": 5})
    line = card.lines.get()
    for change in ({"price_nano": 4}, {"start": at(5)}, {"added_by": "fin@ai-company"}):
        refused(
            "rate_line_changes_only_its_end",
            lambda change=change: card.lines.update(**change),
        )
    refused("rate_line_stays_after_its_start", lambda: line.delete())
    card.lines.update(end=at(10**9))
    a_rate_card(card.organization, {"borrowed": 1}, start=10**9)
    card.lines.get(usage_class="borrowed").delete()


def test_an_end_of_a_price_never_moves_from_or_into_the_past() -> None:
    """A minute is allowed for clocks that differ; a past end may be stored with a new price.

    Planted: only the new end, or only the old one, is looked at; an end a minute ago is refused.
    """
    card = a_rate_card(a_company().organization, {"guaranteed": 5}, end=20)
    a_rate_card(card.organization, {"borrowed": 5})
    past = card.lines.filter(usage_class="guaranteed")
    open_line = card.lines.filter(usage_class="borrowed")
    now = Func(function="now", output_field=DateTimeField())
    for end in (None, at(10), at(30), at(10**9)):
        refused("rate_line_keeps_its_past", lambda end=end: past.update(end=end))
    for change in (at(30), now - timedelta(seconds=61)):
        refused("rate_line_keeps_its_past", lambda end=change: open_line.update(end=end))
    past.update(end=at(20))
    for allowed in (at(10**9), None, now - timedelta(seconds=60), None):
        open_line.update(end=allowed)


def test_a_currency_is_three_letters_and_an_organization_has_one_card() -> None:
    company = a_company()
    for currency in ("eur", "EU", "EU\n", "E1R"):
        refused(
            "rate_card_currency_is_iso_4217",
            lambda currency=currency: RateCard.objects.create(
                organization=company.organization, currency=currency
            ),
        )
    a_rate_card(company.organization)
    refused(
        "organization",
        lambda: RateCard.objects.create(organization=company.organization, currency="USD"),
    )
