"""A day's account is asked for and compared, whatever the names of the teams."""

from __future__ import annotations

from datetime import timedelta

import pytest

from billing.models import ReconciledAccount, ReconciliationStatus
from billing.reconciliations import request_day
from builders.billing_builders import DAY, a_metered_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import a_company, a_department, a_team, an_actor
from clusters.models import Cluster
from connectors.accounts import AccountedRuns
from connectors.registry import ACCOUNTS
from connectors.slurm.naming import account_name
from jobs.reconciling import reconcile_day
from outbox.models import Message
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NOW = DAY + timedelta(days=1, hours=14)


class EmptyAccount:
    """Nothing ran."""

    def account_of(self, team: str) -> str:
        return account_name(team)

    def runs(self, *, start: int, end: int) -> AccountedRuns:
        return AccountedRuns(int(NOW.timestamp()), ())


def test_a_team_that_can_have_no_account_stops_no_comparison(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(ACCOUNTS, "slurm", lambda connector: EmptyAccount())  # type: ignore[arg-type]
    company = a_company()
    Cluster.objects.filter(pk=company.cluster.pk).update(kind="slurm")
    above = company.organization
    for _ in range(9):
        above = a_department(above, "d")
    deep = a_team(above, "t")
    a_metered_attempt(company.nlp)
    a_metered_attempt(deep)
    row = request_day(
        *(company.cluster.name, DAY.date()),
        actor=an_actor(None, Role.PLATFORM_ADMIN, "root"),
        now=NOW,
    )
    reconcile_day(
        Message.objects.get(subject=row.request_id),
        Fenced("observer"),  # type: ignore[arg-type]
        lambda: NOW,
        lambda cluster: None,  # type: ignore[arg-type, return-value]
    )
    row.refresh_from_db()
    assert (row.status, row.message) == (ReconciliationStatus.RED, "")
    assert set(ReconciledAccount.objects.values_list("account", "team_id", "metered_mgpu_s")) == {
        ("ai-company_research_nlp", company.nlp.pk, 28_800_000),
        (f"no account: team {deep.pk}", deep.pk, 28_800_000),
    }
    assert f"team {deep.pk} has no account on {company.cluster.name}" in caplog.text
