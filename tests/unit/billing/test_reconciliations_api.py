"""Reconciled days: asked for, stored, shown to whom they concern."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from django.db.transaction import atomic
from uuid_utils.compat import uuid7

from audit.models import AuditEvent
from billing.acknowledgements import acknowledge_day
from billing.reconciliation import AccountReport, Cause, Difference, reconcile
from billing.reconciliation_models import ReconciledAccount, Reconciliation, ReconciliationStatus
from billing.reconciliations import (
    DIFFERENCES_MAX,
    account_shard,
    plan_days,
    request_day,
    store_failure,
    store_result,
)
from builders.api_callers import Caller, by_token
from builders.billing_builders import DAY as METER_DAY
from builders.billing_builders import a_metered_attempt
from builders.connector_builders import change_kind
from builders.hints import hints_told
from builders.portal_builders import Company, a_company, a_pool, an_actor, an_organization
from builders.reconciliation_builders import DAY, a_metered_run, a_run, an_id
from clusters.models import CapacitySegment, Cluster
from live.publishing import COSTS
from outbox.models import Message
from primitives.clock import SystemClock
from primitives.errors import Conflict
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
TODAY = date(2026, 11, 21)
YESTERDAY = date(2026, 11, 20)
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
NLP = "ai-company_research_nlp"
INFERENCE = "ai-company_production_inference"


def a_slurm_company() -> Company:
    company = a_company("ai-company")
    Cluster.objects.filter(pk=company.cluster.pk).update(kind="slurm", name="alpha")
    company.cluster.refresh_from_db()
    return company


def a_request(company: Company, day: date = YESTERDAY, now: datetime = NOW) -> Reconciliation:
    root = an_actor(None, Role.PLATFORM_ADMIN, f"root-{uuid7()}")
    return request_day(company.cluster.name, day, actor=root, now=now)


def a_result(
    company: Company,
    reports: tuple[AccountReport, ...],
    *,
    day: date = YESTERDAY,
    until: datetime = MIDNIGHT,
) -> Reconciliation:
    row = a_request(company, day)
    assert row.request_id is not None
    store_result(
        row.request_id,
        reports,
        as_of=NOW,
        until=until,
        teams={NLP: company.nlp.pk, INFERENCE: company.inference.pk},
        metered_at=NOW,
        now=NOW,
    )
    row.refresh_from_db()
    return row


def green_and_red() -> tuple[AccountReport, ...]:
    """nlp agrees, inference does not, and a stranger ran something."""
    return reconcile(
        [a_metered_run(), a_metered_run(2, account=INFERENCE)],
        [
            a_run(),
            a_run(2, 110, 149, account=INFERENCE),
            a_run(3, account="physics", key=None, user="eve"),
        ],
        DAY,
    )


def caller_of(company: Company, role: Role, node: Any = None) -> Caller:
    return by_token(an_actor(node or company.organization, role, role.value).user)


def test_a_request_is_one_message_while_it_waits() -> None:
    company = a_slurm_company()
    first, second = a_request(company), a_request(company)
    assert (first.pk, first.request_id) == (second.pk, second.request_id)
    assert first.status == ReconciliationStatus.PENDING
    message = Message.objects.get(kind="reconcile_day")
    assert (message.subject, message.shard) == (
        first.request_id,
        account_shard(company.cluster.pk),
    )
    assert AuditEvent.objects.filter(action="reconciliation.requested").count() == 2


def test_a_day_can_be_asked_for_again_once_it_was_answered() -> None:
    company = a_slurm_company()
    row = a_result(company, ())
    assert (row.status, row.request_id, row.green_at) == ("green", None, NOW)
    again = a_request(company)
    assert again.pk == row.pk
    assert again.request_id is not None
    assert again.status == ReconciliationStatus.GREEN
    assert Message.objects.filter(kind="reconcile_day").count() == 2


def test_an_answer_to_an_old_request_changes_nothing() -> None:
    company = a_slurm_company()
    row = a_request(company)
    store_result(
        an_id(5),
        green_and_red(),
        as_of=NOW,
        until=MIDNIGHT,
        teams={},
        metered_at=NOW,
        now=NOW,
    )
    store_failure(an_id(5), ReconciliationStatus.UNAVAILABLE, "away", now=NOW)
    before = row.request_id
    row.refresh_from_db()
    assert (row.request_id, row.status, row.as_of) == (before, "pending", None)
    assert not ReconciledAccount.objects.exists()


def test_a_red_day_is_compared_again_until_it_is_a_week_old() -> None:
    company = a_slurm_company()
    row = a_result(company, green_and_red())
    assert (row.status, row.next_at) == ("red", NOW + timedelta(minutes=30))
    old = a_result(company, green_and_red(), day=TODAY - timedelta(days=9), until=MIDNIGHT)
    again_at = datetime(2026, 11, 27, 1, tzinfo=UTC)
    assert (old.status, old.next_at) == ("red", again_at)


@pytest.mark.parametrize(
    ("age_days", "repeated_after_days"),
    [(1, 1), (2, 2), (3, 4), (5, 7), (8, 14), (29, 35), (35, 35), (36, None)],
)
def test_a_green_day_is_compared_again_for_35_days(
    age_days: int, repeated_after_days: int | None
) -> None:
    """Planted: only the first repetition of each day."""
    day = TODAY - timedelta(days=age_days)
    row = a_result(a_slurm_company(), (), day=day)
    expected = None
    if repeated_after_days is not None:
        midnight = datetime.combine(day, time(), UTC) + timedelta(days=1 + repeated_after_days)
        expected = midnight + timedelta(hours=1)
    assert (row.status, row.next_at) == ("green", expected)


def test_a_day_that_its_account_forgot_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """An account of 14 days lacks the first runs of a day from 14 days after its begin on.

    Planted: counted from the end of the day."""
    company = a_slurm_company()
    change_kind(monkeypatch, "slurm", account_days=14)
    day = TODAY - timedelta(days=14)
    with pytest.raises(Conflict, match="forgets a run 14 days after its end"):
        a_request(company, day)
    row = a_result(company, (), day=day + timedelta(days=1))
    assert (row.status, row.next_at) == ("green", None)
    # Its next repetition would be 14 days after its end.
    early = a_result(company, (), day=day + timedelta(days=3))
    assert (early.status, early.next_at) == ("green", None)
    young = a_result(company, (), day=YESTERDAY)
    assert young.next_at == datetime(2026, 11, 22, 1, tzinfo=UTC)


def test_a_day_that_is_not_over_is_compared_again_when_it_is() -> None:
    row = a_result(a_slurm_company(), (), day=TODAY, until=NOW)
    assert (row.status, row.next_at) == ("green", datetime(2026, 11, 22, 1, tzinfo=UTC))


def test_a_failure_leaves_what_was_found_before() -> None:
    company = a_slurm_company()
    a_result(company, green_and_red())
    row = a_request(company)
    assert row.request_id is not None
    store_failure(row.request_id, ReconciliationStatus.UNAVAILABLE, "no database", now=NOW)
    row.refresh_from_db()
    assert (row.status, row.message, row.as_of) == ("red", "no database", NOW)
    assert row.next_at == NOW + timedelta(minutes=30)
    assert row.accounts.count() == 3


def test_differences_beyond_the_bound_are_counted_and_summed() -> None:
    differences = tuple(
        Difference(NLP, "h100", Cause.ONLY_IN_ACCOUNT, 1_000 - number)
        for number in range(DIFFERENCES_MAX + 3)
    )
    total = sum(item.mgpu_s for item in differences)
    row = a_result(a_slurm_company(), (AccountReport(NLP, "h100", 0, total, differences),))
    account = row.accounts.get()
    assert (account.difference_count, account.cut_count) == (203, 3)
    kept = sum(item["mgpu_s"] for item in account.differences)
    assert (len(account.differences), kept + account.cut_mgpu_s) == (200, total)


def test_days_are_planned_when_they_are_settled() -> None:
    company = a_slurm_company()
    CapacitySegment.objects.create(
        cluster=company.cluster,
        pool=company.pool,
        capacity_mgpu=1,
        start=datetime(2026, 11, 19, 12, tzinfo=UTC),
    )
    early = datetime(2026, 11, 21, 0, 59, 59, tzinfo=UTC)
    assert plan_days(company.cluster, now=early) == 1
    assert plan_days(company.cluster, now=early) == 0
    assert plan_days(company.cluster, now=early + timedelta(seconds=1)) == 1
    days = Reconciliation.objects.order_by("day").values_list("day", flat=True)
    assert list(days) == [date(2026, 11, 19), YESTERDAY]
    assert Message.objects.filter(kind="reconcile_day").count() == 2


def test_at_most_a_week_is_planned_and_nothing_where_there_is_no_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    company = a_slurm_company()
    assert plan_days(company.cluster, now=NOW) == 0
    CapacitySegment.objects.create(
        cluster=company.cluster,
        pool=company.pool,
        capacity_mgpu=1,
        start=NOW - timedelta(days=100),
    )
    with monkeypatch.context() as patched:
        change_kind(patched, "slurm", open_account=None)
        assert plan_days(company.cluster, now=NOW) == 0
    assert plan_days(company.cluster, now=NOW) == 7


def test_an_archived_cluster_is_compared_for_the_days_on_which_it_was_used() -> None:
    """Against: days after its last job, which a cluster that is gone can never answer for."""
    company = a_company("ai-company")
    company.cluster.nodes.update(is_schedulable=False)
    Cluster.objects.update(kind="slurm", is_enabled=False, archived_at=METER_DAY)
    company.cluster.refresh_from_db()
    CapacitySegment.objects.create(
        cluster=company.cluster, pool=company.pool, capacity_mgpu=1, start=METER_DAY
    )
    second = 2 * 86_400
    a_metered_attempt(company.nlp, start=second, end=second + 3_600)
    assert plan_days(company.cluster, now=METER_DAY + timedelta(days=6)) == 2
    days = Reconciliation.objects.order_by("day").values_list("day", flat=True)
    assert list(days) == [date(2026, 11, 1), date(2026, 11, 3)]


def test_what_is_due_again_is_asked_again() -> None:
    company = a_slurm_company()
    CapacitySegment.objects.create(
        cluster=company.cluster, pool=company.pool, capacity_mgpu=1, start=MIDNIGHT
    )
    row = a_result(company, green_and_red())
    assert row.next_at is not None
    assert plan_days(company.cluster, now=row.next_at - timedelta(seconds=1)) == 0
    assert plan_days(company.cluster, now=row.next_at) == 1
    row.refresh_from_db()
    assert row.request_id is not None


def test_platform_admins_see_everything() -> None:
    company = a_slurm_company()
    row = a_result(company, green_and_red())
    root = by_token(an_actor(None, Role.PLATFORM_ADMIN, "root2").user)
    listed = root.get("reconciliations").json()
    summary = {
        "id": str(row.pk),
        "cluster": "alpha",
        "day": "2026-11-20",
        "status": "red",
        "is_complete": True,
        "as_of": "2026-11-21T14:00:00Z",
        "until": "2026-11-21T00:00:00Z",
        "is_requested": False,
        "next_at": "2026-11-21T14:30:00Z",
        "acknowledgement": None,
        "message": "",
        "metered_mgpu_s": 640_000,
        "accounted_mgpu_s": 952_000,
        "by_device": [{"device": "gpu", "metered_mgpu_s": 640_000, "accounted_mgpu_s": 952_000}],
        "difference_count": 2,
    }
    assert listed == {"items": [summary], "next": None}
    one = root.get(f"reconciliations/{row.pk}").json()
    accounts = one.pop("accounts")
    assert one == summary
    assert [(item["account"], item["team"], item["is_green"]) for item in accounts] == [
        (INFERENCE, "ai-company/production/inference", False),
        (NLP, "ai-company/research/nlp", True),
        ("physics", None, True),
    ]
    assert accounts[0] == {
        "account": INFERENCE,
        "team": "ai-company/production/inference",
        "pool": "h100",
        "device": "gpu",
        "is_green": False,
        "metered_mgpu_s": 320_000,
        "accounted_mgpu_s": 312_000,
        "difference_count": 1,
        "differences": [
            {
                "cause": "end_differs",
                "mgpu_s": -8_000,
                "job": str(an_id(1002)),
                "attempt": str(an_id(2)),
                "native_id": "2",
                "user": "bob",
                "state": "COMPLETED",
                "metered_start": "1970-01-01T00:01:50Z",
                "metered_end": "1970-01-01T00:02:30Z",
                "metered_mgpu": 8_000,
                "accounted_start": "1970-01-01T00:01:50Z",
                "accounted_end": "1970-01-01T00:02:29Z",
                "accounted_mgpu": 8_000,
            }
        ],
        "cut_count": 0,
        "cut_mgpu_s": 0,
    }


def test_the_sums_of_cores_are_apart_from_those_of_gpus() -> None:
    """Planted: all in the sums of GPUs."""
    company = a_slurm_company()
    row = a_result(company, green_and_red())
    a_pool("cpu", device="cpu")
    ReconciledAccount.objects.filter(account=INFERENCE).update(pool="cpu")
    root = by_token(an_actor(None, Role.PLATFORM_ADMIN, "root2").user)
    one = root.get(f"reconciliations/{row.pk}").json()
    assert one["by_device"] == [
        {"device": "gpu", "metered_mgpu_s": 320_000, "accounted_mgpu_s": 640_000},
        {"device": "cpu", "metered_mgpu_s": 320_000, "accounted_mgpu_s": 312_000},
    ]
    assert [account["device"] for account in one["accounts"]] == ["cpu", "gpu", "gpu"]


@pytest.mark.parametrize("role", [Role.FINANCE, Role.AUDITOR, Role.ORGANIZATION_ADMIN])
def test_an_organization_sees_its_own_accounts(role: Role) -> None:
    company = a_slurm_company()
    row = a_result(company, green_and_red())
    one = caller_of(company, role).get(f"reconciliations/{row.pk}").json()
    assert [item["account"] for item in one["accounts"]] == [INFERENCE, NLP]
    assert (one["status"], one["accounted_mgpu_s"]) == ("red", 632_000)


def test_a_day_that_is_red_for_others_is_green_to_whose_accounts_agree() -> None:
    company = a_slurm_company()
    row = a_result(company, green_and_red())
    lead = caller_of(company, Role.TEAM_LEAD, company.nlp)
    one = lead.get(f"reconciliations/{row.pk}").json()
    assert (one["status"], [item["account"] for item in one["accounts"]]) == ("green", [NLP])
    rival = by_token(an_actor(an_organization("rival"), Role.FINANCE, "fin2").user)
    one = rival.get(f"reconciliations/{row.pk}").json()
    assert (one["status"], one["accounts"], one["accounted_mgpu_s"]) == ("green", [], 0)


def test_the_clusters_own_words_are_for_those_who_manage_clusters() -> None:
    company = a_slurm_company()
    row = a_request(company)
    assert row.request_id is not None
    store_failure(row.request_id, ReconciliationStatus.UNAVAILABLE, "host:6819 refused", now=NOW)
    root = by_token(an_actor(None, Role.PLATFORM_ADMIN, "root2").user)
    assert root.get(f"reconciliations/{row.pk}").json()["message"] == "host:6819 refused"
    finance = caller_of(company, Role.FINANCE).get(f"reconciliations/{row.pk}").json()
    assert (finance["status"], finance["message"]) == ("unavailable", "")


def test_who_sees_no_costs_sees_no_reconciliation() -> None:
    company = a_slurm_company()
    row = a_request(company)
    caller = caller_of(company, Role.RESEARCHER, company.nlp)
    assert caller.get("reconciliations").status_code == 403
    assert caller.get(f"reconciliations/{row.pk}").status_code == 403


def test_the_list_turns_pages_newest_first_and_filters() -> None:
    company = a_slurm_company()
    for number in range(5):
        a_request(company, TODAY - timedelta(days=number))
    finance = caller_of(company, Role.FINANCE)
    page = finance.get("reconciliations?limit=3").json()
    assert [item["day"] for item in page["items"]] == ["2026-11-21", "2026-11-20", "2026-11-19"]
    rest = finance.get(page["next"].removeprefix("/api/v1/")).json()
    assert [item["day"] for item in rest["items"]] == ["2026-11-18", "2026-11-17"]
    assert rest["next"] is None
    one = finance.get("reconciliations?day=2026-11-19&cluster=alpha").json()
    assert [item["day"] for item in one["items"]] == ["2026-11-19"]
    assert finance.get("reconciliations?cluster=beta").json()["items"] == []
    for bad in ("day=2026-13-01", "day=today", "from=x", "cursor=abc"):
        assert finance.get(f"reconciliations?{bad}").status_code == 400


def test_finance_requests_a_day() -> None:
    company = a_slurm_company()
    today = SystemClock().now().date()
    body = {"cluster": "alpha", "day": today.isoformat()}
    finance = caller_of(company, Role.FINANCE)
    answer = finance.send("POST", "reconciliations", body)
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["is_requested"]) == ("pending", True)
    assert Message.objects.filter(kind="reconcile_day").count() == 1
    auditor = caller_of(company, Role.AUDITOR)
    assert auditor.send("POST", "reconciliations", body).status_code == 403


@pytest.mark.parametrize(
    ("cluster", "days_ago", "status"),
    [("beta", 0, 404), ("alpha", -1, 400), ("alpha", 401, 400), ("alpha", 400, 202)],
)
def test_days_that_nobody_can_compare_are_refused(cluster: str, days_ago: int, status: int) -> None:
    company = a_slurm_company()
    day = SystemClock().now().date() - timedelta(days=days_ago)
    body = {"cluster": cluster, "day": day.isoformat()}
    answer = caller_of(company, Role.FINANCE).send("POST", "reconciliations", body)
    assert answer.status_code == status
    assert Reconciliation.objects.count() == (status == 202)


@pytest.mark.parametrize("change", [{"open_account": None}, {}])
def test_a_cluster_that_nobody_asks_is_refused(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    """Without an account in its kind, or while it is disabled."""
    company = a_slurm_company()
    change_kind(monkeypatch, "slurm", **change)
    Cluster.objects.filter(pk=company.cluster.pk).update(is_enabled=bool(change))
    body = {"cluster": "alpha", "day": SystemClock().now().date().isoformat()}
    answer = caller_of(company, Role.FINANCE).send("POST", "reconciliations", body)
    assert answer.status_code == 409


def test_a_red_day_is_acknowledged_with_a_reason() -> None:
    """It stays red; who, when and why is shown, and stands in the audit log."""
    company = a_slurm_company()
    row = a_result(company, green_and_red()[:2])
    finance = an_actor(company.organization, Role.FINANCE, "fin")
    path = f"reconciliations/{row.pk}/acknowledgement"
    caller = by_token(finance.user)
    assert caller.post(path, {"reason": ""}).status_code == 400
    answer = caller.post(path, {"reason": "ticket 12: the node was reset"})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["status"], told["acknowledgement"]["by"], told["acknowledgement"]["reason"]) == (
        "red",
        finance.user.login,
        "ticket 12: the node was reset",
    )
    assert (
        caller.get("reconciliations").json()["items"][0]["acknowledgement"]
        == (told["acknowledgement"])
    )
    event = AuditEvent.objects.filter(action="reconciliation.acknowledged").get()
    assert (event.actor, event.detail) == (
        finance.user.login,
        {"day": "2026-11-20", "reason": "ticket 12: the node was reset"},
    )
    lead = caller_of(company, Role.TEAM_LEAD, company.nlp)
    assert lead.get(f"reconciliations/{row.pk}").json()["acknowledgement"] is None


def test_an_acknowledgement_is_told_to_those_who_may_see_costs() -> None:
    """Planted: everybody hears of it."""
    company = a_slurm_company()
    row = a_result(company, green_and_red()[:2])
    finance = an_actor(company.organization, Role.FINANCE, "fin")
    with hints_told() as hints:
        acknowledge_day(actor=finance, reconciliation_id=row.pk, reason="known", now=NOW)
    assert [(hint["topic"], hint["to"]) for hint in hints] == [("reports", COSTS)]


def test_an_acknowledgement_lapses_when_other_differences_are_found() -> None:
    """Against: a day was compared again, differed by more, and was acknowledged still."""
    company = a_slurm_company()
    row = a_result(company, green_and_red()[:2])
    root = an_actor(None, Role.PLATFORM_ADMIN, "root2")
    acknowledge_day(row.pk, "known", actor=root, now=NOW)
    row = a_result(company, green_and_red()[:2])
    assert (row.acknowledged_at, row.acknowledged_reason) == (NOW, "known")
    worse = reconcile(
        [a_metered_run(), a_metered_run(2, account=INFERENCE)],
        [a_run(), a_run(2, 110, 148, account=INFERENCE)],
        DAY,
    )
    row = a_result(company, worse)
    assert (row.acknowledged_at, row.acknowledged_reason) == (None, "")
    event = AuditEvent.objects.filter(action="reconciliation.acknowledgement_lapsed").get()
    assert event.detail == {"day": "2026-11-20", "by": root.user.login, "reason": "known"}


def test_only_red_days_of_ones_own_accounts_are_acknowledged() -> None:
    """An account that is no team's, and red, asks for the platform's finance."""
    company = a_slurm_company()
    row = a_result(company, green_and_red()[:2])
    path = f"reconciliations/{row.pk}/acknowledgement"
    rival = by_token(an_actor(an_organization("rival"), Role.FINANCE, "fin2").user)
    assert rival.post(path, {"reason": "x"}).status_code == 403
    lead = caller_of(company, Role.TEAM_LEAD, company.inference)
    assert lead.post(path, {"reason": "x"}).status_code == 403
    root = by_token(an_actor(None, Role.PLATFORM_ADMIN, "root2").user)
    assert (
        root.post(f"reconciliations/{uuid7()}/acknowledgement", {"reason": "x"}).status_code == 404
    )
    green = a_result(company, reconcile([a_metered_run()], [a_run()], DAY))
    assert green.status == "green"
    assert root.post(path, {"reason": "x"}).status_code == 409


def test_an_acknowledgement_without_a_reason_is_refused_by_the_database() -> None:
    row = a_result(a_slurm_company(), green_and_red())
    with pytest.raises(IntegrityError, match="acknowledgement_has_its_reason"), atomic():
        Reconciliation.objects.filter(pk=row.pk).update(acknowledged_at=NOW)


def test_the_days_of_a_month_are_listed() -> None:
    """Planted: the end included."""
    company = a_slurm_company()
    for day in (17, 18, 19, 20):
        a_result(company, (), day=date(2026, 11, day))
    root = by_token(an_actor(None, Role.PLATFORM_ADMIN, "root2").user)
    found = root.get("reconciliations?start=2026-11-18&end=2026-11-20").json()["items"]
    assert [item["day"] for item in found] == ["2026-11-19", "2026-11-18"]
