"""A day's account is asked for and compared, whatever the names of the teams."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from uuid_utils.compat import uuid7

from billing.metering import Observed, record_observed
from billing.models import MeteredAttempt, UsageSegment
from billing.reconciliation_models import ReconciledAccount, Reconciliation, ReconciliationStatus
from billing.reconciliations import request_day
from builders.billing_builders import DAY, LATER, a_metered_attempt, at
from builders.clocks import ClockAt
from builders.connector_builders import change_kind
from builders.loop_builders import Fenced
from builders.portal_builders import a_company, a_department, a_team, a_user, an_actor
from clusters.models import Cluster
from connectors.accounts import AccountedRun, AccountedRuns
from connectors.local import publishing
from connectors.registry import kind_named
from connectors.slurm.naming import account_name
from jobs.actions.moving import move
from jobs.execution.reconciling import reconcile_day
from jobs.execution.retention import LOGS_KEPT_FOR
from outbox.models import Message
from quotas.models import ClusterUser, Quota
from tenants.models import FormerPlace
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NOW = DAY + timedelta(days=1, hours=14)
DAY_S = 86_400
#: After the last event of the meter was recorded.
AFTER = LATER + timedelta(hours=1)


class AnAccount:
    """These ran."""

    def __init__(self, *runs: AccountedRun) -> None:
        self._runs = runs

    def account_of(self, team: str) -> str:
        return account_name(team)

    def runs(self, *, start: int, end: int) -> AccountedRuns:
        return AccountedRuns(int(NOW.timestamp()), self._runs)


def a_compared_day(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster, account: AnAccount, now: datetime = NOW
) -> Reconciliation:
    change_kind(monkeypatch, "slurm", open_account=lambda connector: account)
    Cluster.objects.filter(pk=cluster.pk).update(kind="slurm")
    row = request_day(
        *(cluster.name, DAY.date()),
        actor=an_actor(None, Role.PLATFORM_ADMIN, f"root-{uuid7()}"),
        now=now,
    )
    reconcile_day(
        Message.objects.get(subject=row.request_id),
        Fenced("observer"),  # type: ignore[arg-type]
        lambda: now,
        lambda cluster: None,  # type: ignore[arg-type, return-value]
    )
    row.refresh_from_db()
    return row


def test_a_team_that_can_have_no_account_stops_no_comparison(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    company = a_company()
    above = company.organization
    for _ in range(9):
        above = a_department(above, "d")
    deep = a_team(above, "t")
    a_metered_attempt(company.nlp)
    a_metered_attempt(deep)
    row = a_compared_day(monkeypatch, company.cluster, AnAccount())
    assert (row.status, row.message) == (ReconciliationStatus.RED, "")
    assert set(ReconciledAccount.objects.values_list("account", "team_id", "metered_mgpu_s")) == {
        ("ai-company_research_nlp", company.nlp.pk, 28_800_000),
        (f"no account: team {deep.pk}", deep.pk, 28_800_000),
    }
    assert f"team {deep.pk} has no account on {company.cluster.name}" in caplog.text


def test_what_ran_on_the_account_of_a_former_place_is_the_teams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One job was begun before nlp was moved, one after: two accounts, one team, no difference.

    Against: accounts of former paths left as they are."""
    company = a_company()
    Quota.objects.filter(node=company.inference).update(guaranteed_mgpu=0)
    attempts = [a_metered_attempt(company.nlp, start, start + 600) for start in (0, 1_800)]
    move(
        company.nlp.pk,
        "ai-company/production",
        actor=an_actor(company.organization, Role.ORGANIZATION_ADMIN),
        clock=ClockAt(at(1_200)),
    )
    runs = [
        AccountedRun(
            native_id=str(number),
            submitted_at=int(at(start).timestamp()),
            key=f"tg-{attempt.pk}",
            name="train",
            user="bob",
            account=account,
            pool="h100",
            mgpu=8_000,
            started_at=int(at(start).timestamp()),
            ended_at=int(at(start + 600).timestamp()),
            state="COMPLETED",
        )
        for number, (attempt, start, account) in enumerate(
            zip(
                attempts,
                (0, 1_800),
                ("ai-company_research_nlp", "ai-company_production_nlp"),
                strict=True,
            )
        )
    ]
    row = a_compared_day(monkeypatch, company.cluster, AnAccount(*runs))
    assert (row.status, row.message) == (ReconciliationStatus.GREEN, "")
    fields = ("account", "team_id", "metered_mgpu_s", "accounted_mgpu_s")
    assert list(ReconciledAccount.objects.values_list(*fields)) == [
        ("ai-company_production_nlp", company.nlp.pk, 9_600_000, 9_600_000)
    ]


class OneForAll(AnAccount):
    """All teams have one account."""

    def account_of(self, team: str) -> str:
        return "shared"


def test_two_teams_with_one_account_stop_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: names by account, so that one of the teams had none: KeyError at every try, for
    what the meter has of it and for its former paths."""
    company = a_company()
    for team in (company.nlp, company.vision):
        a_metered_attempt(team)
    for team in (company.nlp, company.vision):
        FormerPlace.objects.create(
            node=team, path=f"ai-company/old/{team.slug}/", start=at(0), end=at(600)
        )
    row = a_compared_day(monkeypatch, company.cluster, OneForAll())
    assert (row.status, row.message) == (ReconciliationStatus.RED, "")
    assert list(ReconciledAccount.objects.values_list("account", "metered_mgpu_s")) == [
        ("shared", 2 * 28_800_000)
    ]


def a_run_of(attempt: MeteredAttempt, start: int = 0, end: int = 600) -> AccountedRun:
    """The account's record of an attempt of nlp, in seconds of the day."""
    return AccountedRun(
        native_id=str(attempt.pk),
        submitted_at=int(at(start).timestamp()),
        key=f"tg-{attempt.pk}",
        name="train",
        user="bob",
        account="ai-company_research_nlp",
        pool="h100",
        mgpu=8_000,
        started_at=int(at(start).timestamp()),
        ended_at=int(at(end).timestamp()),
        state="COMPLETED",
    )


def causes_of(row: Reconciliation) -> list[str]:
    """The causes of all differences of the day, by account."""
    return [
        difference["cause"]
        for account in row.accounts.order_by("account")
        for difference in account.differences
    ]


def test_a_green_day_whose_account_was_changed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator shortened a record and deleted another, and one of ours appeared. The user
    of a native run was mapped meanwhile.

    Planted: every difference of a day that was green; the agreement forgotten once it was red;
    natives that were listed before counted as changed."""
    company = a_company()
    attempts = [a_metered_attempt(company.nlp, start, start + 600) for start in (0, 1_200)]
    runs = [a_run_of(attempts[0]), a_run_of(attempts[1], 1_200, 1_800)]
    native = replace(runs[0], native_id="77", key=None, user="eve")
    row = a_compared_day(monkeypatch, company.cluster, AnAccount(*runs, native), AFTER)
    assert (row.status, row.green_at, causes_of(row)) == ("green", AFTER, ["native_unmapped"])
    known = a_user(company.organization, "eve")
    ClusterUser.objects.create(cluster=company.cluster, user=known, name="eve")
    strange = replace(runs[0], native_id="78", key="tg-00000000-0000-0000-0000-000000000001")
    for _ in range(2):
        row = a_compared_day(
            monkeypatch,
            company.cluster,
            AnAccount(replace(runs[0], ended_at=int(at(595).timestamp())), strange, native),
            AFTER + timedelta(days=1),
        )
        assert (row.status, row.green_at) == ("red", AFTER)
        assert sorted(causes_of(row)) == [*["account_changed"] * 3, "native_unmapped"]


def test_a_change_of_the_meter_is_no_change_of_the_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One attempt has a later meter event, and the segments of another were changed by hand.

    Planted: without the events; without the fold."""
    company = a_company()
    attempts = [a_metered_attempt(company.nlp, start, start + 600) for start in (0, 1_200)]
    runs = [a_run_of(attempts[0]), a_run_of(attempts[1], 1_200, 1_800)]
    row = a_compared_day(monkeypatch, company.cluster, AnAccount(*runs), AFTER)
    assert row.status == "green"
    record_observed(
        [Observed(attempts[0].pk, "sized", at(300), mgpu=4_000)], AFTER + timedelta(seconds=1)
    )
    UsageSegment.objects.filter(attempt=attempts[1]).update(end=at(1_700))
    row = a_compared_day(monkeypatch, company.cluster, AnAccount(*runs), AFTER)
    assert causes_of(row) == ["gpus_differ", "end_differs"]


def test_a_cluster_has_its_runs_as_long_as_its_kind_says() -> None:
    """Attempts are forgotten on their cluster after 14 days. On this machine marks remain."""
    kept_days = LOGS_KEPT_FOR.days
    assert kind_named("kubernetes").account_days == kept_days
    marks_days = publishing._FORGOTTEN_KEPT_S // 86_400
    assert 35 < (kind_named("local").account_days or 0) <= kept_days + marks_days
    assert kind_named("slurm").account_days is None


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("none", []),
        ("the start twice", []),
        ("the start dropped", [("nlp", "only_in_account", 4_800_000)]),
        ("the end dropped", [("nlp", "still_running", -8_000 * (DAY_S - 600))]),
        ("the start 30 s late", [("nlp", "start_differs", 240_000)]),
        ("the end 30 s early", [("nlp", "end_differs", 240_000)]),
        ("half of the size", [("nlp", "gpus_differ", 2_400_000)]),
        (
            "another team",
            [("nlp", "account_differs", 4_800_000), ("vision", "account_differs", -4_800_000)],
        ),
    ],
)
def test_a_fault_of_the_meters_events_is_found_and_named(
    fault: str, found: list[tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two attempts was metered with a fault; the differences leave no rest.

    Against: the other attempt named, too.
    """
    company = a_company()
    sound = a_metered_attempt(company.nlp, 0, 600)
    team = company.vision if fault == "another team" else company.nlp
    broken = a_metered_attempt(team, None, None)
    events = [Observed(broken.pk, "started", at(0)), Observed(broken.pk, "ended", at(600))]
    if fault == "the start twice":
        events.insert(0, events[0])
    elif fault == "the start dropped":
        del events[0]
    elif fault == "the end dropped":
        del events[1]
    elif fault == "the start 30 s late":
        events[0] = replace(events[0], at=at(30))
    elif fault == "the end 30 s early":
        events[1] = replace(events[1], at=at(570))
    elif fault == "half of the size":
        events.append(Observed(broken.pk, "sized", at(0), mgpu=4_000))
    for event in events:
        record_observed([event], LATER)
    account = AnAccount(a_run_of(sound), a_run_of(broken))
    row = a_compared_day(monkeypatch, company.cluster, account, AFTER)
    differences = [
        (one.account.rpartition("_")[2], each["cause"], each["mgpu_s"], each["attempt"])
        for one in row.accounts.order_by("account")
        for each in one.differences
    ]
    assert differences == [(*one, str(broken.pk)) for one in found]
    for one in row.accounts.all():
        rest = one.accounted_mgpu_s - one.metered_mgpu_s
        assert sum(each["mgpu_s"] for each in one.differences) == rest
