"""`/metrics`: who may read it, and what it says."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.conf import LazySettings
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from bank.models import CreditPool
from billing.reconciliation_models import Reconciliation
from builders.bank_builders import a_bank
from builders.clocks import ClockAt
from builders.portal_builders import NOW, Company, a_company
from clusters.models import Cluster
from exports.models import ChargeAudit
from jobs.models import Heartbeat
from ledger.models import Seal
from outbox.models import Message
from portal import metrics

pytestmark = pytest.mark.django_db

TOKEN = "m" * 32
AUDIT = {"organization": "ai-company", "month": "2026-11"}


@pytest.fixture
def company(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Company:
    """A company whose accounts were last touched some minutes before NOW."""
    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(metrics, "SystemClock", lambda: ClockAt(NOW))
    company = a_company()
    for role, minutes in (("arbiter", 1), ("observer", 2)):
        Heartbeat.objects.update_or_create(
            role=role,
            defaults={"epoch": 1, "at": NOW, "worked_at": NOW - timedelta(minutes=minutes)},
        )
    Cluster.objects.update(seen_at=NOW - timedelta(minutes=3))
    for day, status, acknowledged in ((1, "green", False), (2, "red", False), (3, "red", True)):
        Reconciliation.objects.create(
            cluster=company.cluster,
            day=date(2026, 11, day),
            status=status,
            as_of=NOW - timedelta(minutes=day),
            until=NOW - timedelta(minutes=day),
            **(
                {
                    "acknowledged_at": NOW,
                    "acknowledged_by": "fin",
                    "acknowledged_reason": "known",
                    "acknowledged_digest": "0",
                }
                if acknowledged
                else {}
            ),
        )
    a_bank(company.organization, NOW - timedelta(days=1))
    CreditPool.objects.create(
        organization=company.organization,
        pool=company.pool,
        settled_since=NOW - timedelta(days=1),
        settled_until=NOW - timedelta(minutes=4),
    )
    for ledger, minutes in (("money", 9), ("money", 5), ("credits:1", 6)):
        Seal.objects.create(
            ledger=ledger,
            number=minutes,
            sealed_at=NOW - timedelta(minutes=minutes),
            hash=b"0" * 32,
        )
    for minutes, count, nano in ((8, 0, 0), (7, 1, 12)):
        ChargeAudit.objects.create(
            organization=company.organization,
            month=date(2026, 11, 1),
            audited_at=NOW - timedelta(minutes=minutes),
            line_count=2,
            difference_count=count,
            difference_mgpu_s=0,
            difference_nano=nano,
            differences=[{}] * count,
        )
    return company


def scraped(client: Client) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The samples of each gauge by their labels, as Prometheus reads them."""
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    return {
        family.name: {tuple(sorted(one.labels.items())): one.value for one in family.samples}
        for family in text_string_to_metric_families(answer.content.decode())
    }


def ago(minutes: float) -> float:
    return NOW.timestamp() - 60 * minutes


def test_all_gauges(company: Company, client: Client) -> None:
    """Planted: the oldest seal of all in place of each ledger's last; acknowledged days counted;
    the first audit of a month; the bank of an organization that switched it off."""
    audit = tuple(sorted(AUDIT.items()))
    local = (("cluster", "local"),)
    assert scraped(client) == {
        "tidegate_loop_worked_timestamp_seconds": {
            (("loop", "arbiter"),): ago(1),
            (("loop", "observer"),): ago(2),
        },
        "tidegate_outbox_oldest_seconds": {(): 0.0},
        "tidegate_exports_unfinished": {(): 0.0},
        "tidegate_cluster_answered_timestamp_seconds": {local: ago(3)},
        "tidegate_reconciliation_compared_timestamp_seconds": {local: ago(1)},
        "tidegate_reconciliation_red_days": {local: 1.0},
        "tidegate_credits_settled_timestamp_seconds": {
            (("organization", "ai-company"), ("pool", "h100")): ago(4)
        },
        "tidegate_ledger_sealed_timestamp_seconds": {(): ago(6)},
        "tidegate_charge_audit_timestamp_seconds": {audit: ago(7)},
        "tidegate_charge_audit_differences": {audit: 1.0},
        "tidegate_charge_audit_difference_nano": {audit: 12.0},
    }
    company.organization.credit_bank.is_on = False
    company.organization.credit_bank.save()
    Message.objects.create(
        kind="x", subject=company.pool.pk, created_at=NOW, due_at=NOW - timedelta(seconds=30)
    )
    found = scraped(client)
    assert found["tidegate_credits_settled_timestamp_seconds"] == {}
    assert found["tidegate_outbox_oldest_seconds"] == {(): 30.0}


def test_an_empty_installation_has_no_times(settings: LazySettings, client: Client) -> None:
    """Planted: the time of an absent seal."""
    settings.METRICS_TOKEN = TOKEN
    Heartbeat.objects.all().delete()
    found = scraped(client)
    assert found["tidegate_ledger_sealed_timestamp_seconds"] == {}
    assert found["tidegate_loop_worked_timestamp_seconds"] == {}


@pytest.mark.parametrize("given", ["", "Bearer", f"Bearer {TOKEN}x", TOKEN, "Bearer é"])
def test_only_the_token_reads_it(settings: LazySettings, client: Client, given: str) -> None:
    """Planted: a prefix of the token accepted."""
    settings.METRICS_TOKEN = TOKEN
    answer = client.get("/metrics", headers={"Authorization": given} if given else {})
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert answer["Content-Type"] == "application/problem+json"
    assert "tidegate_" not in answer.content.decode()
    assert client.post("/metrics").status_code == 405
