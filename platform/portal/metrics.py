"""`/metrics`: the state of the installation for Prometheus.

Everything is read from the database, so each web process gives the same answer. Labels are names of
organizations, pools and clusters, and never of jobs or people. Times are epoch seconds.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Max, Min, Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from bank.models import CreditPool
from billing.reconciliation_models import Reconciliation, ReconciliationStatus
from clusters.models import Cluster
from exports.models import Export, ExportState
from exports.nightly_audits import latest_audits
from jobs.reading.heartbeats import loop_health
from ledger.models import Seal
from outbox.models import Message
from primitives.clock import SystemClock
from webapi.problems import CONTENT_TYPE, not_found, problem

#: Audits of months that began longer ago are left out.
_AUDITS_FOR = timedelta(days=62)

Sample = tuple[tuple[str, ...], float]


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all gauges as text for the token of `TIDEGATE_METRICS_TOKEN`. Without one: 404."""
    if not settings.METRICS_TOKEN:
        return not_found(request)
    expected = f"Bearer {settings.METRICS_TOKEN}".encode()
    if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), expected):
        return JsonResponse(
            problem(
                401,
                code="unauthenticated",
                title="Unauthorized",
                detail="Send the token of the setting TIDEGATE_METRICS_TOKEN as a bearer token.",
            ),
            status=401,
            content_type=CONTENT_TYPE,
            headers={"WWW-Authenticate": "Bearer"},
        )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Gauges(SystemClock().now()))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class Gauges(Collector):
    """All gauges, as of `now`. A gauge without a value has no line."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each gauge with its samples."""
        yield from self._processes()
        yield from self._clusters()
        yield from self._accounts()

    def _processes(self) -> Iterator[GaugeMetricFamily]:
        yield _gauge(
            "tidegate_loop_worked_timestamp_seconds",
            "Last work of the arbiter and the observer.",
            ("loop",),
            [
                ((role,), health.worked_at.timestamp())
                for role, health in loop_health(self._now).items()
                if health.worked_at is not None
            ],
        )
        due = Message.objects.filter(done_at=None, due_at__lte=self._now)
        oldest: datetime | None = due.aggregate(oldest=Min("due_at"))["oldest"]
        waited_s = 0.0 if oldest is None else (self._now - oldest).total_seconds()
        yield _gauge(
            "tidegate_outbox_oldest_seconds",
            "Age of the oldest message to a cluster that is due.",
            (),
            [((), waited_s)],
        )
        unfinished = Q(state__in=[ExportState.QUEUED, ExportState.RUNNING])
        yield _gauge(
            "tidegate_exports_unfinished",
            "Exports that wait for a worker or are being written.",
            (),
            [((), Export.objects.filter(unfinished).count())],
        )

    def _clusters(self) -> Iterator[GaugeMetricFamily]:
        clusters = Cluster.objects.filter(archived_at=None).order_by("name")
        yield _gauge(
            "tidegate_cluster_answered_timestamp_seconds",
            "Last complete answer of a cluster.",
            ("cluster",),
            [((one.name,), one.seen_at.timestamp()) for one in clusters if one.seen_at is not None],
        )
        days = (
            Reconciliation.objects.filter(cluster__archived_at=None)
            .values("cluster__name")
            .annotate(
                compared_at=Max("as_of"),
                red=Count("pk", filter=Q(status=ReconciliationStatus.RED, acknowledged_at=None)),
            )
            .order_by("cluster__name")
        )
        yield _gauge(
            "tidegate_reconciliation_compared_timestamp_seconds",
            "Last comparison of the meter with a cluster's own records.",
            ("cluster",),
            [
                ((row["cluster__name"],), row["compared_at"].timestamp())
                for row in days
                if row["compared_at"] is not None
            ],
        )
        yield _gauge(
            "tidegate_reconciliation_red_days",
            "Days on which meter and cluster differ, and that nobody acknowledged.",
            ("cluster",),
            [((row["cluster__name"],), row["red"]) for row in days],
        )

    def _accounts(self) -> Iterator[GaugeMetricFamily]:
        pools = CreditPool.objects.select_related("organization", "pool").filter(
            organization__credit_bank__is_on=True
        )
        yield _gauge(
            "tidegate_credits_settled_timestamp_seconds",
            "Until when the use of a pool is settled in credits.",
            ("organization", "pool"),
            [
                ((one.organization.slug, one.pool.name), one.settled_until.timestamp())
                for one in pools.order_by("organization__slug", "pool__name")
            ],
        )
        seals = Seal.objects.values("ledger").annotate(last=Max("sealed_at"))
        sealed_at = [row["last"].timestamp() for row in seals]
        yield _gauge(
            "tidegate_ledger_sealed_timestamp_seconds",
            "Last seal of the ledger whose last proof without a fault is oldest.",
            (),
            [((), min(sealed_at))] if sealed_at else [],
        )
        audits = list(
            latest_audits((self._now - _AUDITS_FOR).date()).order_by("organization__slug", "month")
        )
        for name, help_text, values in (
            (
                "tidegate_charge_audit_timestamp_seconds",
                "Last audit of the charges of a month.",
                [audit.audited_at.timestamp() for audit in audits],
            ),
            (
                "tidegate_charge_audit_differences",
                "Sums of charges that differ from the audit.",
                [audit.difference_count for audit in audits],
            ),
            (
                "tidegate_charge_audit_difference_nano",
                "Difference between charges and audit, in billionths of the currency.",
                [audit.difference_nano for audit in audits],
            ),
        ):
            yield _gauge(
                name,
                help_text,
                ("organization", "month"),
                [
                    ((audit.organization.slug, f"{audit.month:%Y-%m}"), value)
                    for audit, value in zip(audits, values, strict=True)
                ],
            )


def _gauge(
    name: str, help_text: str, labels: tuple[str, ...], samples: Iterable[Sample]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family
