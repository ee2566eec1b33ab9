"""Settlement, correction and closing whose connection dies before any statement that writes.

To PostgreSQL a killed process is a connection that is gone. After each death nothing of the act is
stored, and the next try does all of it once.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from bank.correcting import correct_due, correct_next_interval
from bank.models import CreditPool
from bank.settling import settle_due
from billing.models import MeteredAttempt, UnpaidUse
from builders.bank_builders import a_bank, balances, lots_are_right, teams_of
from builders.billing_builders import a_metered_attempt, a_rate_card, at, record_ended
from builders.parallel import in_thread
from builders.period_builders import DUE, close
from builders.portal_builders import a_company, a_pool, an_actor, an_organization
from ledger.proof import find_faults
from periods.digests import digest_of
from periods.models import BillingPeriod, ChargeRow
from primitives.errors import Conflict
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)

#: A GPU-second, in millionths.
GPU_S = 1_000_000
#: The last two quarters of November, the second of which shares out the balance of the pool.
QUARTERS = 30 * 86_400 - 1_800
TABLES = (
    *("ledger_account", "ledger_transfer", "ledger_entry"),
    *("bank_creditpool", "bank_creditlot", "bank_settlement", "bank_settlementline"),
    *("bank_settlementtransfer", "billing_unpaiduse", "billing_usagesegment"),
    *("billing_changeduse", "periods_billingperiod", "periods_chargerow", "audit_auditevent"),
)


def stored() -> dict[str, str | None]:
    """The rows of all tables of accounts, as hashes."""
    found = {}
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM {table} t")
            (found[table],) = cursor.fetchone()
    return found


def die() -> None:
    """Let the server end this thread's connection, as if its process were gone."""
    pid = connection.connection.info.backend_pid

    def terminate() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])

    with ThreadPoolExecutor(1) as threads:
        in_thread(threads, terminate).result(60)


class DiesBefore:
    """Dies before the write number `number`."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        if str(sql).lstrip().startswith(("INSERT", "UPDATE", "DELETE")):
            self.left -= 1
            if self.left == 0:
                die()
        return execute(sql, params, many, context)


def dies_everywhere(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Let `act` die before each of its writes and before its commit; return how often it died.

    Nothing of it is stored. At last it is done.
    """
    before = stored()

    def dies(*_: Any) -> None:
        die()
        raise OperationalError("the connection is gone")

    with monkeypatch.context() as patch:
        patch.setattr(BaseDatabaseWrapper, "_commit", dies)
        with pytest.raises(OperationalError):
            act()
        connection.close()
    assert stored() == before
    deaths = 1
    while True:
        death = DiesBefore(deaths)
        try:
            with connection.execute_wrapper(death):
                act()
        except (OperationalError, InterfaceError):
            connection.close()
        if death.left > 0:
            assert stored() != before
            return deaths
        connection.close()
        assert stored() == before
        deaths += 1


@pytest.fixture
def teams() -> dict[str, Node]:
    """a and b have 8 GPUs each, c none; a uses 24 and c 2, so POOL earns, and c's use is unpaid."""
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8, c=0)
    a_bank(organization, at(QUARTERS))
    settle_due(at(QUARTERS))
    for name, mgpu, guaranteed_mgpu in (("a", 24_000, 8_000), ("c", 2_000, 0)):
        a_metered_attempt(
            teams[name],
            QUARTERS,
            None,
            pool=pool,
            mgpu=mgpu,
            guaranteed_mgpu=guaranteed_mgpu,
            now=at(QUARTERS),
        )
    return teams


def is_proved(credit_pool: CreditPool) -> bool:
    return find_faults(credit_pool.ledger) == [] and lots_are_right(credit_pool)


def test_a_settlement_that_dies_anywhere_is_made_once(
    teams: dict[str, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With unpaid use, and the dividend of a month.

    Planted: a commit before the settlement is stored.
    """
    assert settle_due(at(QUARTERS + 960)) == 1
    now = at(QUARTERS + 1_860)
    assert dies_everywhere(lambda: settled(now), monkeypatch) > 5
    credit_pool = CreditPool.objects.get()
    # Of 16 GPUs a borrowed 8 from b and 8 from nobody, which the dividend shares out.
    assert balances(credit_pool, teams, 900 * GPU_S * 8) == {"a": -3, "b": 3, "pool": 0}
    assert UnpaidUse.objects.count() == 2
    assert is_proved(credit_pool)
    assert settle_due(now) == 0


def settled(now: datetime) -> None:
    """Settle as the worker does, but raise what it logs."""
    if settle_due(now) == 0:
        raise OperationalError("logged")


def test_a_correction_that_dies_anywhere_is_made_once(
    teams: dict[str, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job of a ended in the middle of the first quarter.

    Planted: a commit before the revision is stored.
    """
    settle_due(at(QUARTERS + 960))
    credit_pool = CreditPool.objects.get()
    job = MeteredAttempt.objects.get(team=teams["a"])
    record_ended(job.pk, at(QUARTERS + 450), at(QUARTERS + 1_000))
    now = at(QUARTERS + 1_010)
    assert dies_everywhere(lambda: correct_next_interval(credit_pool.pk, now), monkeypatch) > 5
    # 24 GPUs for half of it are 4 above the guarantee of 8 on average, all lent by b.
    assert balances(credit_pool, teams, 900 * GPU_S * 4) == {"a": -1, "b": 1, "pool": 0}
    assert is_proved(credit_pool)
    assert correct_due(at(QUARTERS + 1_020)) == 0


def test_a_closing_that_dies_anywhere_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second month has corrections of the first.

    Planted: a commit before the event of the audit log.
    """
    company = a_company()
    a_rate_card(company.organization)
    fiona = an_actor(company.organization, Role.FINANCE, "fiona")
    attempt = a_metered_attempt(company.nlp, 0, None)
    assert dies_everywhere(lambda: close(company, fiona, "2026-11", "known"), monkeypatch) > 3
    november = BillingPeriod.objects.get()
    record_ended(attempt.pk, at(86_400), DUE)
    january = datetime(2027, 1, 4, tzinfo=UTC)

    def act() -> None:
        close(company, fiona, "2026-12", "known", january)

    assert dies_everywhere(act, monkeypatch) > 3
    with pytest.raises(Conflict, match="is closed already"):
        act()
    for period in BillingPeriod.objects.all():
        assert digest_of(period, period.rows.order_by("number")) == period.digest
    again = BillingPeriod.objects.get(pk=november.pk)
    assert again.digest == november.digest
    rows = ChargeRow.objects.all()
    assert sum(row.mgpu_s for row in rows) == 8_000 * 86_400
    assert rows.filter(is_correction=True).count() == 29
