"""Audits by the worker: what is stored, who sees it, and what never changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from builders.api_callers import by_token
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card
from builders.portal_builders import Company, a_company, an_actor, an_organization
from exports import nightly_audits
from exports.auditing import AuditedLine
from exports.models import ChargeAudit
from exports.nightly_audits import audit_lately, latest_audits
from quotas.models import OrganizationPolicy
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

Auditor = Callable[[Node, int, int], list[AuditedLine]]


@pytest.fixture
def company() -> Company:
    """nlp used 8 GPUs for an hour of 1 November; another organization used nothing."""
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp)
    an_organization("empty")
    return company


def audited_by(monkeypatch: pytest.MonkeyPatch, auditor: Auditor) -> None:
    monkeypatch.setattr(
        nightly_audits,
        "audit_organization",
        lambda node, year, month, *, now: auditor(node, year, month),
    )


def a_line(**changes: Any) -> AuditedLine:
    values = {
        "organization": "ai-company", "pool": "h100", "usage_class": "borrowed",
        "charged_mgpu_s": 1, "audited_mgpu_s": 1, "charged_nano": 2, "audited_nano": 2,
    }  # fmt: skip
    return AuditedLine(**{**values, **changes})


def test_a_result_is_stored_of_each_month_with_use(company: Company) -> None:
    """October had no use, and the other organization none at all, so they can be deleted.

    Planted: an audit stored without a line."""
    assert audit_lately(LATER) == 0
    audit = ChargeAudit.objects.get()
    assert (audit.organization, audit.month, audit.audited_at) == (
        company.organization,
        date(2026, 11, 1),
        LATER,
    )
    assert (audit.line_count, audit.difference_count, audit.differences) == (1, 0, [])


def test_each_difference_is_stored_and_logged(
    company: Company, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is of this month and of the last one, across the year. Differences do not cancel out.

    Planted: this month alone; differences summed with their signs."""
    asked: list[tuple[str, int, int]] = []

    def differing(node: Node, year: int, month: int) -> list[AuditedLine]:
        asked.append((node.slug, year, month))
        if month == 12 or node.slug != "ai-company":
            return []
        return [a_line(), a_line(charged_nano=5), a_line(audited_nano=5, audited_mgpu_s=3)]

    audited_by(monkeypatch, differing)
    assert audit_lately(datetime(2027, 1, 2, tzinfo=UTC)) == 2
    assert asked == [
        ("ai-company", 2026, 12), ("ai-company", 2027, 1), ("empty", 2026, 12), ("empty", 2027, 1),
    ]  # fmt: skip
    audit = ChargeAudit.objects.get()
    assert (audit.line_count, audit.difference_count) == (3, 2)
    assert (audit.difference_mgpu_s, audit.difference_nano) == (2, 6)
    assert [line["charged_nano"] for line in audit.differences] == [5, 2]
    assert "audited_nano=5" in caplog.text


def test_months_are_those_of_the_organizations_time_zone(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Auckland it is January 13 hours before UTC. Planted: the month of the UTC date."""
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": "Pacific/Auckland"}
    )
    audited_by(monkeypatch, lambda node, year, month: [a_line()])
    audit_lately(datetime(2026, 12, 31, 11, tzinfo=UTC))
    assert [
        (one.organization.slug, f"{one.month:%Y-%m}") for one in ChargeAudit.objects.order_by("pk")
    ] == [
        ("ai-company", "2026-12"),
        ("ai-company", "2027-01"),
        ("empty", "2026-11"),
        ("empty", "2026-12"),
    ]


def test_an_audit_that_fails_does_not_stop_those_of_others(
    company: Company, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Planted: the error ends the audit of all."""

    def failing(node: Node, year: int, month: int) -> list[AuditedLine]:
        if node.slug == "ai-company":
            raise OSError("no space")
        return [a_line(charged_nano=3)]

    audited_by(monkeypatch, failing)
    assert audit_lately(LATER) == 2
    assert {one.organization.slug for one in ChargeAudit.objects.all()} == {"empty"}
    assert "the charges of ai-company cannot be audited" in caplog.text


def test_few_differences_are_kept_and_all_are_counted(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a list without a bound."""
    monkeypatch.setattr(nightly_audits, "DIFFERENCES_MAX", 2)
    audited_by(monkeypatch, lambda node, year, month: [a_line(charged_nano=9)] * 3)
    audit_lately(LATER)
    audit = latest_audits().filter(organization=company.organization).latest("month")
    assert (len(audit.differences), audit.difference_count, audit.difference_nano) == (2, 3, 21)


def test_the_latest_audit_of_a_month_counts(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the first audit of a month."""
    audited_by(monkeypatch, lambda node, year, month: [a_line(charged_nano=3)])
    audit_lately(LATER)
    audited_by(monkeypatch, lambda node, year, month: [a_line()])
    audit_lately(LATER)
    assert ChargeAudit.objects.count() == 8
    assert [audit.difference_count for audit in latest_audits()] == [0] * 4
    assert {f"{one.month:%m}" for one in latest_audits(date(2026, 11, 1))} == {"11"}


def test_people_see_audits_of_their_whole_organization(company: Company) -> None:
    """Finance sees them. A team lead sees the costs of a part only, and others see none.

    Planted: audits of all organizations."""
    audit_lately(LATER)
    rival = a_company("rival")
    finance = by_token(an_actor(company.organization, Role.FINANCE, "fin").user)
    (shown,) = finance.get("charge-audits?month=2026-11").json()["items"]
    assert shown == {
        "id": str(ChargeAudit.objects.get().pk),
        "organization": "ai-company",
        "month": "2026-11",
        "audited_at": "2026-11-21T00:00:00Z",
        "line_count": 1,
        "difference_count": 0,
        "difference_mgpu_s": 0,
        "difference_nano": 0,
        "differences": [],
    }
    for path in ("?month=2026-10", "?organization=rival"):
        assert finance.get(f"charge-audits{path}").json()["items"] == []
    for node, role in ((company.nlp, Role.TEAM_LEAD), (rival.organization, Role.FINANCE)):
        caller = by_token(an_actor(node, role, f"u-{node.slug}").user)
        assert caller.get("charge-audits").json()["items"] == []


def test_a_month_is_written_as_such(company: Company) -> None:
    finance = by_token(an_actor(company.organization, Role.FINANCE, "fin").user)
    answer = finance.get("charge-audits?month=11/2026")
    assert (answer.status_code, answer.json()["detail"]) == (400, "Write the month as 2026-11.")


def test_a_stored_audit_never_changes(company: Company) -> None:
    """The database refuses a change, a deletion, and a result that does not add up."""
    audit_lately(LATER)
    audit = ChargeAudit.objects.get()
    for refused in (
        lambda: ChargeAudit.objects.update(line_count=2),
        lambda: ChargeAudit.objects.all().delete(),
    ):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            refused()
    for wrong in (
        {"difference_count": 1},
        {"difference_nano": 1},
        {"differences": [{}]},
        {"difference_count": 2, "difference_nano": 1},
        {"difference_count": 1, "difference_nano": -1},
    ):
        with pytest.raises(IntegrityError, match="charge_audit_adds_up"), transaction.atomic():
            ChargeAudit.objects.create(
                **{
                    "organization": audit.organization,
                    "month": audit.month,
                    "audited_at": LATER,
                    "line_count": 1,
                    "difference_count": 0,
                    "difference_mgpu_s": 0,
                    "difference_nano": 0,
                    **wrong,
                }
            )
