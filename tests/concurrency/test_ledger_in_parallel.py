"""The ledger written by several processes at once: no deadlock, no floor broken, no key twice.

The first test is the control: the threads do meet.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from uuid_utils.compat import uuid7

from builders.ledger_builders import (
    CREDITS,
    LATER,
    a_hold,
    a_move,
    a_pool_account,
    a_team_account,
    recorded,
    sums,
    two_accounts,
)
from builders.parallel import at_once, in_thread, somebody_waits_for_a_lock
from builders.portal_builders import NOW
from ledger.accounts import open_account
from ledger.errors import FloorReached, NotResolvable
from ledger.models import Account, Entry, Transfer
from ledger.transfers import NewTransfer, record, resolution_of, void_expired

pytestmark = pytest.mark.django_db(transaction=True)


def is_recorded(*batch: NewTransfer) -> bool:
    """Return whether a batch was accepted and not refused."""
    try:
        record(batch, now=NOW)
    except (FloorReached, NotResolvable):
        return False
    return True


def test_control_a_second_writer_of_an_account_waits() -> None:
    team, pool = two_accounts()
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            record([a_move(team, pool, 1)], now=NOW)
            other = in_thread(threads, lambda: is_recorded(a_move(pool, team, 1)))
            while not somebody_waits_for_a_lock():
                assert not other.done()
        assert other.result(60)
    assert sums(team) == (0, 0, 0)


def test_two_writers_together_keep_the_floor() -> None:
    """Planted: no locks on accounts."""
    team, pool = two_accounts(floor=-100)
    done = at_once([lambda: is_recorded(a_move(team, pool, 30)) for _ in range(6)])
    assert sorted(done) == [False, False, False, True, True, True]
    assert sums(team) == (-90, 0, 0)


def test_batches_over_the_same_accounts_in_any_order_do_not_deadlock() -> None:
    """Planted: no locks on accounts. Against: locks in the order of the batch."""
    teams = [a_team_account(f"team-{n}") for n in range(6)]
    pool = a_pool_account()
    batches = []
    for n in range(8):
        order = teams if n % 2 else teams[::-1]
        batches.append([a_move(team, pool, 1 + n) for team in order for _ in range(10)])
    assert at_once([lambda b=b: is_recorded(*b) for b in batches]) == [True] * 8  # type: ignore[misc]
    total = 10 * sum(range(1, 9))
    assert [sums(team) for team in teams] == [(-total, 0, 0)] * 6
    assert sums(pool) == (6 * total, 0, 0)
    for account in (*teams, pool):
        sequences = Entry.objects.filter(account=account).order_by("sequence")
        assert list(sequences.values_list("sequence", flat=True)) == list(
            range(1, account.sequence + 1)
        )


def test_raw_inserts_do_not_deadlock_either() -> None:
    """The trigger locks by itself, in the same order as `record`. Planted: no locks in it."""
    teams = [a_team_account(f"team-{n}") for n in range(4)]

    def insert(order: list[Account]) -> None:
        with connection.cursor() as cursor:
            for debit, credit in itertools.pairwise(order):
                cursor.execute(
                    """
                    INSERT INTO ledger_transfer (key, debit_id, credit_id, amount, state, code,
                        enforces_limits, effective_at, created_at, reference, reason, body_hash)
                    SELECT k, d, c, 1, 'posted', 'lent', true, %(now)s, %(now)s, '', '',
                        ledger_hash(json_build_array(k, d, c, 1, 'posted', 'lent', null, null,
                            true, ledger_microseconds(%(now)s), null, '', ''))
                    FROM (SELECT gen_random_uuid(), %(debit)s::bigint, %(credit)s::bigint)
                        AS given (k, d, c)
                    """,
                    {"debit": debit.id, "credit": credit.id, "now": NOW},
                )

    at_once([lambda n=n: insert(teams if n % 2 else teams[::-1]) for n in range(8)])  # type: ignore[misc]
    assert [sums(team) for team in teams] == [(0, 0, 0)] * 4


def test_one_key_from_several_writers_is_recorded_once() -> None:
    team, pool = two_accounts()
    move = a_move(team, pool, 7)
    results = at_once([lambda: record([move], now=NOW) for _ in range(6)])
    assert sorted(each.is_repeat for (each,) in results) == [False] + [True] * 5
    assert sums(team) == (-7, 0, 0)


def test_a_hold_is_resolved_by_one_of_several() -> None:
    """Against: no unique resolution, so that both release the hold."""
    team, pool = two_accounts()
    hold = recorded(a_hold(team, pool, 9))

    def resolve(amount: int | None) -> bool:
        return is_recorded(resolution_of(hold, key=uuid7(), amount=amount, effective_at=NOW))

    done = at_once([lambda n=n: resolve(n) for n in (None, 9, 5, None)])  # type: ignore[misc]
    assert sorted(done) == [False, False, False, True]
    assert sums(team)[1:] == (0, 0)


def test_two_sweepers_void_each_expired_hold_once() -> None:
    """Planted: the sweeper does not look again after it locked the accounts."""
    team, pool = two_accounts()
    record([a_hold(team, pool, 1) for _ in range(20)], now=NOW)
    assert sum(at_once([lambda: void_expired(now=LATER) for _ in range(4)])) == 20
    assert sums(team) == (0, 0, 0)
    assert Transfer.objects.filter(state="voided").count() == 20


def test_an_account_is_opened_once_by_several() -> None:
    opened = at_once([lambda: open_account(CREDITS, "nlp", "team").id for _ in range(6)])
    assert len(set(opened)) == 1
