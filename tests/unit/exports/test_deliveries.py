"""Deliveries of files: schedules, when each file is due, tries, and repeats."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import LazySettings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card, at
from builders.period_builders import DUE, an_empty_closed_month, close
from builders.portal_builders import Company, a_company, an_actor
from exports import schedules
from exports.delivering import PAUSES, deliver_next, plan_deliveries
from exports.models import Delivery, DeliverySchedule, Export
from exports.running import run_next
from exports.schedules import create_schedule, end_schedule, redeliver
from exports.targets import DeliveryFailed, FolderTarget
from periods.models import BillingPeriod
from periods.statements import Unit, credit_statement, issue_statements
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound
from quotas.models import OrganizationPolicy
from tenants.access import Actor
from tenants.models import RoleGrant
from tenants.roles import Role

pytestmark = pytest.mark.django_db

A_DAY = timedelta(days=1)
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def root(settings: LazySettings, tmp_path: Path) -> Path:
    """The folder of the only target, `finance`."""
    settings.EXPORTS_DIR = tmp_path / "exports"
    path = tmp_path / "finance"
    path.mkdir()
    settings.DELIVERY_TARGETS = {"finance": str(path)}
    return path


@pytest.fixture
def company(root: Path) -> Company:
    """nlp used 8 GPUs for an hour of 1 November, at 2 EUR per GPU-hour."""
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp)
    return company


def finance_of(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fin")


def scheduled(actor: Actor, **changes: Any) -> DeliverySchedule:
    given: dict[str, Any] = {
        "organization": "ai-company",
        "dataset": "charges",
        "format_name": "csv",
        "frequency": "daily",
        "target": "finance",
        "now": LATER,
    }
    return create_schedule(actor=actor, **{**given, **changes})


def a_closed_month(company: Company, closed_at: datetime) -> BillingPeriod:
    return BillingPeriod.objects.create(
        organization=company.organization, month=date(2026, 11, 1), start=DAY, end=DECEMBER,
        time_zone="UTC", closed_at=closed_at, closed_by="fin", row_count=0, digest="0" * 64,
    )  # fmt: skip


def clock_at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def made(now: datetime) -> Delivery:
    """The only delivery after its file was requested, written and sent at `now`."""
    assert deliver_next(clock_at(now))
    assert run_next(clock_at(now))
    assert deliver_next(clock_at(now + timedelta(seconds=15)))
    return Delivery.objects.get()


def test_a_daily_file_has_the_month_until_the_last_day(company: Company, root: Path) -> None:
    """At 21 November it has all use until its midnight; use after it is of the next file.

    Planted: use until now."""
    a_metered_attempt(company.vision, 19 * 86_400, None, mgpu=1_000)
    scheduled(finance_of(company), now=LATER + A_DAY / 2)
    now = LATER + A_DAY / 2
    assert plan_deliveries(now) == 1
    assert plan_deliveries(now) == 0
    delivery = made(now)
    place = root / "ai-company/2026-11"
    name = "charges-ai-company-20261101-20261201.csv"
    content = (place / name).read_bytes()
    assert (delivery.state, delivery.due_on, delivery.sha256, delivery.message) == (
        "done", date(2026, 11, 20), hashlib.sha256(content).hexdigest(), "",
    )  # fmt: skip
    assert json.loads((place / f"{name}.manifest.json").read_text())["period"]["as_of"] == (
        "2026-11-21T00:00:00Z"
    )
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert [(row["team"], row["gpu_hours"]) for row in rows] == [
        ("ai-company/research/nlp", "8.000000"),
        ("ai-company/research/vision", "24.000000"),
    ]


def test_days_are_of_the_organizations_zone(company: Company) -> None:
    """In New York, the first of December begins five hours later.

    Planted: the month of today in place of yesterday's."""
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": "America/New_York"}
    )
    scheduled(finance_of(company))
    plan_deliveries(DECEMBER + timedelta(hours=4))
    assert Delivery.objects.get().due_on == date(2026, 11, 29)
    plan_deliveries(DECEMBER + timedelta(hours=6))
    newest = Delivery.objects.get(due_on=date(2026, 11, 30))
    deliver_next(clock_at(DECEMBER + timedelta(hours=6)))
    newest.refresh_from_db()
    assert newest.export is not None
    assert (newest.export.start, newest.export.as_of) == (
        datetime(2026, 11, 1, 4, tzinfo=UTC),
        datetime(2026, 12, 1, 5, tzinfo=UTC),
    )


def test_an_older_file_never_replaces_a_newer_one(company: Company) -> None:
    """Planted: a delivery of yesterday that is still tried; a repeat of it."""
    finance = finance_of(company)
    scheduled(finance)
    plan_deliveries(LATER)
    plan_deliveries(LATER + A_DAY)
    old, new = Delivery.objects.order_by("due_on")
    assert (old.state, old.message) == ("failed", "A later file replaces it.")
    assert new.state == "waiting"
    with pytest.raises(Conflict, match="A later file replaced it"):
        redeliver(old.pk, actor=finance, now=LATER)


def test_a_monthly_file_comes_once_the_month_is_closed(company: Company, root: Path) -> None:
    """Months that were closed before the schedule are not delivered.

    Planted: all closed months."""
    finance = finance_of(company)
    closed = a_closed_month(company, DECEMBER + 4 * A_DAY)
    scheduled(finance, frequency="monthly", now=DECEMBER + 5 * A_DAY)
    assert plan_deliveries(DECEMBER + 6 * A_DAY) == 0
    DeliverySchedule.objects.update(created_at=closed.closed_at)
    assert plan_deliveries(DECEMBER + 6 * A_DAY) == 1
    delivery = made(DECEMBER + 6 * A_DAY)
    assert (delivery.state, delivery.due_on) == ("done", date(2026, 11, 1))
    assert delivery.export is not None
    assert (delivery.export.start, delivery.export.end, delivery.export.as_of) == (
        DAY, DECEMBER, DECEMBER + 6 * A_DAY,
    )  # fmt: skip
    assert len(list((root / "ai-company/2026-11").iterdir())) == 2


def test_invoices_come_once_there_are_statements(company: Company, root: Path) -> None:
    """The file has the statements that were issued before it, and a repeat has the later ones.

    Against: the invoices until the end of the month, which are none; a repeat of the old file."""
    finance = finance_of(company)
    scheduled(finance, frequency="monthly", dataset="focus_invoice_detail")
    close(company, finance, "2026-11", "known")
    assert plan_deliveries(DUE) == 0
    (statement,) = issue_statements(
        company.organization.pk, "2026-11", Unit.TEAM, actor=finance, now=DUE
    )
    assert plan_deliveries(DUE) == 1
    assert made(DUE).state == "done"
    (file,) = (root / "ai-company/2026-11").glob("*.csv")

    def invoices() -> list[str]:
        return [row["InvoiceId"] for row in csv.DictReader(file.read_text().splitlines())]

    assert invoices() == ["2026-00001"]
    later = DUE + A_DAY
    credit_statement(statement.pk, "wrong", actor=finance, now=later)
    redeliver(Delivery.objects.get().pk, actor=finance, now=later)
    assert made(later).state == "done"
    assert invoices() == ["2026-00001", "2026-00002"]


def test_a_file_is_named_by_days_of_the_organizations_zone(company: Company) -> None:
    """Tokyo's November begins on 31 October in UTC. Against: days in UTC."""
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": "Asia/Tokyo"}
    )
    scheduled(finance_of(company))
    plan_deliveries(LATER)
    assert deliver_next(clock_at(LATER))
    assert Export.objects.get().file_name == "charges-ai-company-20261101-20261201.csv"


def test_known_months_are_not_looked_up_one_by_one(company: Company) -> None:
    """A plan without news takes as many queries after three months as after one.

    Planted: a query for each closed month."""
    scheduled(finance_of(company), frequency="monthly")
    queries = []
    for month in (12, 1, 2):
        first = date(2026 if month == 12 else 2027, month, 1)
        an_empty_closed_month(company.organization, first)
        assert plan_deliveries(DECEMBER + 100 * A_DAY) == 1
        with CaptureQueriesContext(connection) as seen:
            assert plan_deliveries(DECEMBER + 100 * A_DAY) == 0
        queries.append(len(seen))
    assert queries == [2, 2, 2]


def test_after_the_soft_time_limit_no_other_delivery_begins(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delivery in hand is tried again later, and the task ends.

    Planted: True, which lets the task take the next one."""
    scheduled(finance_of(company))
    plan_deliveries(LATER)
    assert deliver_next(clock_at(LATER))
    assert run_next(clock_at(LATER))

    def interrupted(*_: object) -> None:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(FolderTarget, "deliver", interrupted)
    assert not deliver_next(clock_at(LATER + timedelta(seconds=15)))
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.tries, delivery.message) == (
        "waiting", 1, "The target took too long. Ask the operator.",
    )  # fmt: skip


def test_a_target_that_refuses_is_tried_again_with_a_bound(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last pause the delivery has failed, and a person may repeat it.

    Planted: a try without a pause; one try too many."""
    finance = finance_of(company)
    scheduled(finance)
    plan_deliveries(LATER)

    def refusing(*_: object) -> None:
        raise DeliveryFailed("It is full.")

    with monkeypatch.context() as patch:
        patch.setattr(FolderTarget, "deliver", refusing)
        delivery = made(LATER)
        now = LATER + timedelta(seconds=15)
        for number, pause in enumerate(PAUSES, 1):
            assert (delivery.state, delivery.tries, delivery.message) == (
                "waiting", number, "It is full.",
            )  # fmt: skip
            assert not deliver_next(clock_at(now + pause - timedelta(seconds=1)))
            now += pause
            assert deliver_next(clock_at(now))
            delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == ("failed", 5)
    redeliver(delivery.pk, actor=finance, now=now)
    assert deliver_next(clock_at(now))
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries, delivery.message) == ("done", 0, "")
    assert Export.objects.count() == 1


def test_a_repeat_writes_a_deleted_file_again(company: Company, root: Path) -> None:
    """The bytes are the same. Planted: a deleted file that fails the repeat."""
    finance = finance_of(company)
    scheduled(finance)
    plan_deliveries(LATER)
    first = made(LATER)
    assert first.export is not None
    (Path(f"{root.parent}/exports") / str(first.export.pk)).unlink()
    (root / "ai-company/2026-11/charges-ai-company-20261101-20261201.csv").unlink()
    redeliver(first.pk, actor=finance, now=LATER + A_DAY / 2)
    second = made(LATER + A_DAY / 2)
    assert (second.state, second.sha256) == ("done", first.sha256)
    assert second.export_id != first.export_id


def test_a_repeat_that_waits_is_refused(company: Company) -> None:
    finance = finance_of(company)
    scheduled(finance)
    plan_deliveries(LATER)
    with pytest.raises(Conflict, match="The delivery is not made yet"):
        redeliver(Delivery.objects.get().pk, actor=finance, now=LATER)


def test_the_rights_of_the_author_count_for_each_file(company: Company) -> None:
    """Planted: the file requested on behalf of nobody."""
    finance = finance_of(company)
    scheduled(finance)
    plan_deliveries(LATER)
    RoleGrant.objects.filter(user=finance.user).delete()
    assert deliver_next(clock_at(LATER))
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.tries, delivery.export) == ("waiting", 1, None)
    assert delivery.message.startswith("You need the right view_costs")


def test_only_one_worker_makes_a_delivery(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker finds nothing while the file is on its way to the target.

    Planted: no lease."""
    others: list[bool] = []

    def slow(*_: object) -> None:
        patch.undo()
        others.append(deliver_next(clock_at(LATER + timedelta(minutes=5))))

    scheduled(finance_of(company))
    plan_deliveries(LATER)
    with monkeypatch.context() as patch:
        patch.setattr(FolderTarget, "deliver", slow)
        assert made(LATER).state == "done"
    assert others == [False]


def test_who_may_schedule(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: an auditor's schedule; a target that nobody named."""
    finance = finance_of(company)
    with pytest.raises(Forbidden):
        scheduled(an_actor(company.organization, Role.AUDITOR, "aud"))
    with pytest.raises(Forbidden):
        scheduled(an_actor(company.nlp, Role.TEAM_LEAD, "lead"))
    with pytest.raises(NotFound):
        scheduled(an_actor(a_company("rival").organization, Role.FINANCE, "fin"))
    with pytest.raises(InvalidRequest, match="for a whole organization"):
        scheduled(finance, organization="ai-company/research")
    with pytest.raises(InvalidRequest, match="as CSV or Parquet"):
        scheduled(finance, dataset="focus_cost_and_usage", format_name="xlsx")
    for dataset in ("closed_charges", "focus_invoice_detail"):
        with pytest.raises(InvalidRequest, match="once a month is closed"):
            scheduled(finance, dataset=dataset)
    with pytest.raises(NotFound, match="There is no target 'elsewhere'"):
        scheduled(finance, target="elsewhere")
    scheduled(finance)
    with pytest.raises(Conflict, match="There is such a schedule already"):
        scheduled(finance)
    monkeypatch.setattr(schedules, "SCHEDULES_MAX", 1)
    with pytest.raises(Conflict, match="ai-company has 1 schedules"):
        scheduled(finance, frequency="monthly")
    event = AuditEvent.objects.get(action="delivery_schedule.created")
    assert (event.actor, event.detail["target"]) == ("fin@ai-company", "finance")


def test_an_ended_schedule_delivers_nothing_more(company: Company) -> None:
    """Its waiting delivery has failed, and a second end changes nothing."""
    finance = finance_of(company)
    schedule = scheduled(finance)
    plan_deliveries(LATER)
    with pytest.raises(Forbidden, match="Only finance"):
        end_schedule(
            schedule.pk, actor=an_actor(company.organization, Role.AUDITOR, "aud"), now=LATER
        )
    for _ in range(2):
        end_schedule(schedule.pk, actor=finance, now=LATER)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.message) == (
        "failed",
        "The schedule was ended before the delivery.",
    )
    assert plan_deliveries(LATER + A_DAY) == 0
    assert AuditEvent.objects.filter(action="delivery_schedule.ended").count() == 1
    with pytest.raises(Conflict, match="Its schedule was ended"):
        redeliver(delivery.pk, actor=finance, now=LATER)
    scheduled(finance)


def test_over_rest(company: Company) -> None:
    """A schedule is made, listed with its deliveries, and ended. Targets have no address."""
    finance = by_token(finance_of(company).user)
    assert finance.get("delivery-targets").json()["items"] == [
        {"name": "finance", "kind": "folder"}
    ]
    body = {
        "organization": "ai-company", "dataset": "focus_cost_and_usage", "format": "parquet",
        "frequency": "daily", "target": "finance",
    }  # fmt: skip
    answer = finance.post("delivery-schedules", body)
    assert answer.status_code == 201
    schedule = answer.json()
    assert {**schedule, **body} == schedule
    assert (schedule["created_by"], schedule["ended_at"]) == ("fin@ai-company", None)
    plan_deliveries(LATER)
    (delivery,) = finance.get("deliveries").json()["items"]
    assert (delivery["schedule"], delivery["state"], delivery["file_name"]) == (
        schedule, "waiting", None,
    )  # fmt: skip
    assert finance.post(f"deliveries/{delivery['id']}/repeat", None).status_code == 409
    assert finance.delete(f"delivery-schedules/{schedule['id']}").status_code == 204
    assert finance.get("delivery-schedules").json()["items"][0]["ended_at"] is not None
    rival = by_token(an_actor(a_company("rival").organization, Role.FINANCE, "fin").user)
    for path in ("deliveries", "delivery-schedules"):
        assert rival.get(path).json()["items"] == []
    assert rival.delete(f"delivery-schedules/{schedule['id']}").status_code == 404
    assert rival.post(f"deliveries/{delivery['id']}/repeat", None).status_code == 404


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("delivery_says_how_it_ended", {"state": "done"}),
        ("delivery_says_how_it_ended", {"state": "failed"}),
        ("delivery_says_how_it_ended", {"state": "done", "delivered_at": LATER, "sha256": "x"}),
    ],
)
def test_the_database_refuses(company: Company, name: str, values: Mapping[str, Any]) -> None:
    scheduled(finance_of(company))
    plan_deliveries(LATER)
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Delivery.objects.update(**values)
    first = Delivery.objects.get()
    with pytest.raises(IntegrityError, match="day_is_delivered_once"), transaction.atomic():
        Delivery.objects.create(
            schedule=first.schedule, due_on=first.due_on, created_at=LATER, next_at=LATER
        )
    for wrong, constraint in (
        ({"frequency": "hourly"}, "frequency_is_known"),
        ({"target": ""}, "delivery_has_a_target"),
    ):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            DeliverySchedule.objects.update(**wrong)


def test_a_second_schedule_of_the_same_file_is_refused_by_the_database(company: Company) -> None:
    first = scheduled(finance_of(company))
    with pytest.raises(IntegrityError, match="file_is_delivered_once"), transaction.atomic():
        DeliverySchedule.objects.create(
            organization=first.organization, dataset=first.dataset, format=first.format,
            frequency=first.frequency, target=first.target, created_by=first.created_by,
            created_at=at(0),
        )  # fmt: skip
