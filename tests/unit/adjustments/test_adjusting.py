"""Adjustments: at once up to the threshold, by a second person above it, in open months only."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from adjustments.adjusting import (
    adjustments_between,
    approve_adjustment,
    ask_for_adjustment,
    expire_adjustments,
    reject_adjustment,
    visible_adjustments,
)
from adjustments.models import Adjustment, AdjustmentPolicy
from adjustments.thresholds import change_policy, threshold_nano_for, visible_policy
from audit.models import AuditEvent
from builders.adjustment_builders import (
    a_finance_person,
    a_pending_adjustment,
    asked,
    close_bare,
    priced,
)
from builders.api_callers import by_token
from builders.portal_builders import NOW, Company, a_company, an_actor
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound, PreconditionFailed
from primitives.units import NANO_PER_UNIT
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

IN_A_WEEK = NOW + timedelta(days=7)
DONE = {"status": "done", "decided_at": NOW, "expires_at": None}


@pytest.fixture
def company() -> Company:
    company = a_company()
    priced(company)
    return company


@pytest.fixture
def fay(company: Company) -> Actor:
    return a_finance_person(company, "fay")


@pytest.fixture
def flo(company: Company) -> Actor:
    return a_finance_person(company, "flo")


def test_an_adjustment_up_to_the_threshold_counts_at_once(company: Company, fay: Actor) -> None:
    """1,000.00 is the standard threshold, for credits, too. Planted: below it only."""
    for units, team in ((1_000, company.nlp), (-1_000, company.vision)):
        found = ask_for_adjustment(asked(company, units, team=team), actor=fay, now=NOW)
        assert (found.status, found.currency, found.month) == ("done", "EUR", date(2026, 11, 1))
    counted = adjustments_between(company.organization.pk, NOW, NOW + timedelta(seconds=1))
    assert [one.amount_nano // NANO_PER_UNIT for one in counted] == [1_000, -1_000]
    event = AuditEvent.objects.filter(action="adjustment.done").latest("id")
    assert event.detail == {
        "team": "ai-company/research/vision",
        "currency": "EUR",
        "amount_nano": -1_000 * NANO_PER_UNIT,
        "month": "2026-11",
        "reason": "storage of October",
        "note": "",
    }


def test_an_adjustment_is_not_split_below_the_threshold(
    company: Company, fay: Actor, flo: Actor
) -> None:
    """A charge and a credit add up. Another month, team and person have a sum of their own.

    Planted: the sum with signs; the sum of all persons. Against: pending ones in the sum.
    """

    def status(units: int, actor: Actor, **changes: object) -> str:
        return ask_for_adjustment(asked(company, units, **changes), actor=actor, now=NOW).status

    assert status(2_000, fay) == "pending"
    assert [status(600, fay), status(-400, fay), status(1, fay)] == ["done", "done", "pending"]
    assert status(1_000, flo) == "done"
    assert status(1_000, fay, month="2026-10") == "done"
    assert status(1_000, fay, team=company.vision) == "done"


def test_a_larger_one_waits_for_another_person(company: Company, fay: Actor, flo: Actor) -> None:
    """The same person never approves it. The second decision of two is refused.

    Planted: the threshold of the signed amount; no check of the first person.
    """
    waiting = ask_for_adjustment(asked(company, -1_001), actor=fay, now=NOW)
    assert (waiting.status, waiting.expires_at) == ("pending", IN_A_WEEK)
    assert not list(adjustments_between(company.organization.pk, NOW, IN_A_WEEK))
    with pytest.raises(Forbidden, match="another person"):
        approve_adjustment(waiting.pk, note="", actor=fay, now=NOW)
    approve_adjustment(waiting.pk, note="agreed", actor=flo, now=NOW)
    assert approve_adjustment(waiting.pk, note="", actor=flo, now=NOW).note == "agreed"
    gus = a_finance_person(company, "gus")
    with pytest.raises(Conflict, match="is approved and waits for nobody"):
        reject_adjustment(waiting.pk, note="no", actor=gus, now=NOW)
    assert len(list(adjustments_between(company.organization.pk, NOW, IN_A_WEEK))) == 1


def test_a_rejection_needs_a_note_and_the_person_who_asked_may_withdraw(
    company: Company, fay: Actor, flo: Actor
) -> None:
    """Planted: rejected without a word."""
    one, other = (ask_for_adjustment(asked(company, 5_000), actor=fay, now=NOW) for _ in range(2))
    with pytest.raises(InvalidRequest, match="Say in note"):
        reject_adjustment(one.pk, note=" ", actor=flo, now=NOW)
    assert reject_adjustment(one.pk, note="twice", actor=flo, now=NOW).status == "rejected"
    assert reject_adjustment(other.pk, note="", actor=fay, now=NOW).status == "withdrawn"


def test_nobody_decides_after_seven_days(company: Company, fay: Actor, flo: Actor) -> None:
    """Planted: approved although it expired, before the timer came."""
    waiting = ask_for_adjustment(asked(company, 5_000), actor=fay, now=NOW)
    with pytest.raises(Conflict, match="expired"):
        approve_adjustment(waiting.pk, note="", actor=flo, now=IN_A_WEEK)
    assert expire_adjustments(IN_A_WEEK - timedelta(seconds=1)) == 0
    assert [expire_adjustments(IN_A_WEEK), expire_adjustments(IN_A_WEEK)] == [1, 0]
    waiting.refresh_from_db()
    assert (waiting.status, waiting.decided_by) == ("expired", None)


def test_finance_of_the_organization_adjusts_and_people_who_see_costs_read(
    company: Company, fay: Actor
) -> None:
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    with pytest.raises(Forbidden, match="Only finance"):
        ask_for_adjustment(asked(company, 5), actor=lead, now=NOW)
    made = ask_for_adjustment(asked(company, 5), actor=fay, now=NOW)
    stranger = an_actor(company.vision, Role.TEAM_LEAD)
    assert [list(visible_adjustments(one)) for one in (lead, stranger)] == [[made], []]
    waiting = ask_for_adjustment(asked(company, 5_000), actor=fay, now=NOW)
    with pytest.raises(Forbidden):
        approve_adjustment(waiting.pk, note="", actor=lead, now=NOW)
    with pytest.raises(NotFound):
        approve_adjustment(waiting.pk, note="", actor=stranger, now=NOW)


def test_an_adjustment_counts_in_an_open_month(company: Company, fay: Actor, flo: Actor) -> None:
    """In its grace, October's last second. Once it is closed, neither new nor approved ones.

    Planted: the moment of asking, which is in November; approval after the closing.
    """
    october = ask_for_adjustment(asked(company, 5, month="2026-10"), actor=fay, now=NOW)
    assert october.effective_at == datetime(2026, 10, 31, 23, 59, 59, tzinfo=UTC)
    waiting = ask_for_adjustment(asked(company, 5_000, month="2026-10"), actor=fay, now=NOW)
    for wrong in ("2026-12", "october", "2026-13"):
        with pytest.raises(InvalidRequest, match="month"):
            ask_for_adjustment(asked(company, 5, month=wrong), actor=fay, now=NOW)
    close_bare(company.organization, date(2026, 10, 1))
    with pytest.raises(Conflict, match="2026-10 is closed and never changes"):
        ask_for_adjustment(asked(company, 5, month="2026-10"), actor=fay, now=NOW)
    with pytest.raises(Conflict, match="closed by now"):
        approve_adjustment(waiting.pk, note="", actor=flo, now=NOW)
    assert reject_adjustment(waiting.pk, note="late", actor=flo, now=NOW).status == "rejected"


def test_odd_adjustments_are_refused(company: Company, fay: Actor) -> None:
    with pytest.raises(InvalidRequest, match="is no team"):
        ask_for_adjustment(asked(company, 5, team=company.research), actor=fay, now=NOW)
    with pytest.raises(InvalidRequest, match="above 0 for a charge"):
        ask_for_adjustment(asked(company, 0), actor=fay, now=NOW)
    other = a_company("other")
    with pytest.raises(Forbidden):
        ask_for_adjustment(asked(other, 5), actor=fay, now=NOW)
    with pytest.raises(Conflict, match="has no rate card"):
        ask_for_adjustment(asked(other, 5), actor=a_finance_person(other, "fin"), now=NOW)


def test_the_threshold_is_changed_by_version_and_pending_ones_still_wait(
    company: Company, fay: Actor
) -> None:
    """Planted: the old threshold holds on."""
    organization = company.organization.pk
    assert visible_policy(fay, organization).threshold_nano == 1_000 * NANO_PER_UNIT
    change_policy(organization, 0, actor=fay, if_version=1, now=NOW)
    with pytest.raises(PreconditionFailed):
        change_policy(organization, 5, actor=fay, if_version=1, now=NOW)
    assert ask_for_adjustment(asked(company, 1), actor=fay, now=NOW).status == "pending"
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    with pytest.raises(Forbidden):
        change_policy(organization, 5, actor=lead, if_version=2, now=NOW)


def test_a_raise_of_the_threshold_counts_for_other_persons_only(
    company: Company, fay: Actor, flo: Actor
) -> None:
    """fay raises it twice, and lowers it in between. flo's change then counts for fay.

    Planted: the raised threshold for everybody; the threshold before the last change of fay.
    """
    organization = company.organization.pk
    for version, units in enumerate((5_000, 4_000, 9_000), start=1):
        change_policy(organization, units * NANO_PER_UNIT, actor=fay, if_version=version, now=NOW)
    policy = visible_policy(fay, organization)
    assert (policy.changed_by, policy.changed_at) == (fay.user, NOW)
    assert threshold_nano_for(fay.user, policy) == 1_000 * NANO_PER_UNIT
    assert ask_for_adjustment(asked(company, 1_001), actor=fay, now=NOW).status == "pending"
    assert ask_for_adjustment(asked(company, 9_000), actor=flo, now=NOW).status == "done"
    change_policy(organization, 6_000 * NANO_PER_UNIT, actor=flo, if_version=4, now=NOW)
    assert ask_for_adjustment(asked(company, 6_000), actor=fay, now=NOW).status == "done"
    change_policy(organization, 100 * NANO_PER_UNIT, actor=fay, if_version=5, now=NOW)
    assert threshold_nano_for(fay.user, visible_policy(fay, organization)) == 100 * NANO_PER_UNIT


def test_the_threshold_is_read_and_changed_over_rest(company: Company, fay: Actor) -> None:
    path = f"organizations/{company.organization.pk}/adjustment-policy"
    shown = by_token(fay.user).get(path)
    assert shown.json() == {
        "organization": "ai-company",
        "threshold_nano": 1_000 * NANO_PER_UNIT,
        "your_threshold_nano": 1_000 * NANO_PER_UNIT,
        "changed_by": None,
        "changed_at": None,
        "version": 1,
    }
    changed = by_token(fay.user).patch(
        path, {"threshold_nano": 2_000 * NANO_PER_UNIT}, If_Match=shown.headers["ETag"]
    )
    assert changed.status_code == 200, changed.content
    found = changed.json()
    assert (found["threshold_nano"], found["your_threshold_nano"], found["changed_by"]) == (
        *(2_000 * NANO_PER_UNIT, 1_000 * NANO_PER_UNIT),
        fay.user.login,
    )


def test_amounts_reach_a_billion(company: Company, fay: Actor) -> None:
    """Over REST, too, and not one more."""
    body = {"team": company.nlp.path, "amount_nano": 10**18, "reason": "a merger"}
    made = by_token(fay.user).post("adjustments", body)
    assert (made.status_code, made.json()["amount_nano"]) == (201, 10**18)
    refused = by_token(fay.user).post("adjustments", body | {"amount_nano": 10**18 + 1})
    assert refused.status_code == 400


def test_an_adjustment_reaches_twelve_months_back(company: Company, fay: Actor) -> None:
    """NOW is in November 2026. Planted: 13 months."""
    last = ask_for_adjustment(asked(company, 5, month="2025-11"), actor=fay, now=NOW)
    assert last.month == date(2025, 11, 1)
    with pytest.raises(InvalidRequest, match="more than 12 months ago"):
        ask_for_adjustment(asked(company, 5, month="2025-10"), actor=fay, now=NOW)


def test_a_month_before_a_closed_one_is_closed(company: Company, fay: Actor, flo: Actor) -> None:
    """The first closed month is October, so no statement of September comes any more.

    Planted: the closed month alone.
    """
    waiting = ask_for_adjustment(asked(company, 5_000, month="2026-09"), actor=fay, now=NOW)
    close_bare(company.organization, date(2026, 10, 1))
    with pytest.raises(Conflict, match="2026-09 is closed and never changes"):
        ask_for_adjustment(asked(company, 5, month="2026-09"), actor=fay, now=NOW)
    with pytest.raises(Conflict, match="closed by now"):
        approve_adjustment(waiting.pk, note="", actor=flo, now=NOW)
    rows = Adjustment.objects.filter(pk=waiting.pk)
    with pytest.raises(IntegrityError, match="month is closed"), transaction.atomic():
        rows.update(status="approved", decided_by=flo.user, decided_at=NOW)


# -- what the database keeps ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"amount_nano": 0}, "adjustment_changes_something"),
        ({"reason": ""}, "adjustment_changes_something"),
        ({"amount_nano": 2 * 10**18}, "adjustment_changes_something"),
        ({"is_correction": True}, "only_refunds_are_corrections"),
        ({"expires_at": None}, "adjustment_that_waits_expires"),
        ({"status": "approved"}, "adjustment_has_a_second_person"),
        ({"status": "done", "decided_at": NOW}, "adjustment_that_waits_expires"),
        ({"status": "withdrawn", "decided_at": NOW}, "adjustment_has_a_second_person"),
        ({"month": date(2026, 10, 1), **DONE}, "month is closed"),
    ],
)
def test_the_database_refuses(
    company: Company, fay: Actor, change: dict[str, object], name: str
) -> None:
    close_bare(company.organization, date(2026, 10, 1))
    values = {
        "organization": company.organization,
        "team": company.nlp,
        "month": date(2026, 11, 1),
        "effective_at": NOW,
        "amount_nano": 5,
        "currency": "EUR",
        "reason": "storage",
        "status": "pending",
        "asked_by": fay.user,
        "asked_at": NOW,
        "expires_at": IN_A_WEEK,
        **change,
    }
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Adjustment.objects.create(**values)


@pytest.mark.parametrize(
    "change",
    [
        {"amount_nano": 1},
        {"reason": "another"},
        {"month": date(2026, 10, 1)},
        {"expires_at": IN_A_WEEK + timedelta(days=1)},
    ],
)
def test_an_adjustment_stays_as_it_was_asked_for(
    company: Company, fay: Actor, change: dict[str, object]
) -> None:
    made = a_pending_adjustment(company, fay.user, IN_A_WEEK)
    rows = Adjustment.objects.filter(pk=made.pk)
    with pytest.raises(IntegrityError, match="decided once and stay"), transaction.atomic():
        rows.update(**change)
    with pytest.raises(IntegrityError, match="decided once and stay"), transaction.atomic():
        rows.delete()


def test_the_person_who_asked_never_approves_and_a_decision_stays(
    company: Company, fay: Actor, flo: Actor
) -> None:
    """By SQL, too. Planted: the constraint without the comparison."""
    made = a_pending_adjustment(company, fay.user, IN_A_WEEK)
    rows = Adjustment.objects.filter(pk=made.pk)
    with pytest.raises(IntegrityError, match="second_person"), transaction.atomic():
        rows.update(status="approved", decided_by=fay.user, decided_at=NOW)
    with pytest.raises(IntegrityError, match="has_a_note"), transaction.atomic():
        rows.update(status="rejected", decided_by=flo.user, decided_at=NOW)
    rows.update(status="approved", decided_by=flo.user, decided_at=NOW)
    with pytest.raises(IntegrityError, match="decided once"), transaction.atomic():
        rows.update(status="withdrawn", decided_by=fay.user)


@pytest.mark.parametrize(
    "change",
    [
        {"before_nano": 5},
        {"before_nano": -1, "changed_at": NOW, "is_named": True},
        {"before_nano": 5, "is_named": True},
    ],
)
def test_a_threshold_remembers_its_last_change_in_full(
    company: Company, fay: Actor, change: dict[str, object]
) -> None:
    values = dict(change)
    if values.pop("is_named", False):
        values["changed_by"] = fay.user
    with pytest.raises(IntegrityError, match="remembers_its_last_change"), transaction.atomic():
        AdjustmentPolicy.objects.create(organization=company.organization, **values)
