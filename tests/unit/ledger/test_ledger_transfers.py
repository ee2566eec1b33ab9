"""Transfers as callers record them: holds, resolutions, reversals, repeats and refusals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from builders.ledger_builders import (
    CREDITS,
    LATER,
    a_hold,
    a_move,
    a_team_account,
    recorded,
    sums,
    two_accounts,
)
from builders.portal_builders import NOW
from ledger import transfers
from ledger.accounts import accounts_of, find_account, open_account, set_limits
from ledger.errors import (
    CapReached,
    FloorReached,
    InvalidTransfer,
    NotResolvable,
    NotReversible,
    TransferKeyReused,
)
from ledger.models import AMOUNT_MAX, Entry, PendingTransfer, Transfer, TransferState
from ledger.transfers import (
    BATCH_MAX,
    NewTransfer,
    record,
    resolution_of,
    reversal_of,
    void_expired,
)
from primitives.errors import PortalError

pytestmark = pytest.mark.django_db


def refusal(error: type[PortalError], *batch: NewTransfer) -> str:
    """The sentence with which a batch is refused; nothing of it was recorded."""
    before = Transfer.objects.count()
    with pytest.raises(error) as caught:
        record(batch, now=NOW)
    assert type(caught.value) is error
    assert Transfer.objects.count() == before
    return caught.value.detail


def test_an_account_opens_once_and_keeps_its_limits() -> None:
    first = open_account(CREDITS, "nlp", "team", floor=-7, cap=14)
    assert open_account(CREDITS, "nlp", "team", floor=-1) == first
    first.refresh_from_db()
    assert (first.floor, first.cap, first.balance, first.sequence) == (-7, 14, 0, 0)
    assert find_account(CREDITS, "nlp", "team") == first
    assert find_account("credits:a100", "nlp", "team") is None
    other = open_account("money:EUR", "nlp", "team")
    assert list(accounts_of(CREDITS)) == [first]
    assert str(other) == "team account of nlp in money:EUR"


def test_limits_move_and_the_balance_stays() -> None:
    team, pool = two_accounts(floor=-10)
    recorded(a_move(team, pool, 10))
    set_limits(team.id, floor=-5, cap=None)
    assert sums(team) == (-10, 0, 0)
    assert "may spend -5 more" in refusal(FloorReached, a_move(team, pool, 1))
    recorded(a_move(pool, team, 3))
    assert sums(team) == (-7, 0, 0)
    with pytest.raises(InvalidTransfer, match="floor must not be above its cap"):
        set_limits(team.id, floor=2, cap=1)
    with pytest.raises(InvalidTransfer, match=r"There is no account -1\. Open it first\."):
        set_limits(-1, floor=None, cap=None)


@pytest.mark.parametrize(
    ("ledger", "owner", "kind", "sentence"),
    [
        ("h100", "nlp", "team", "A ledger's name must be like credits:h100 or money:EUR."),
        ("credits:", "nlp", "team", "A ledger's name must be like credits:h100 or money:EUR."),
        ("credits:h100", "", "team", "An account needs an owner, and a kind of small letters,"),
        ("credits:h100", "nlp", "Team", "An account needs an owner, and a kind of small letters,"),
    ],
)
def test_names_of_accounts_are_plain(ledger: str, owner: str, kind: str, sentence: str) -> None:
    with pytest.raises(InvalidTransfer, match=sentence):
        open_account(ledger, owner, kind)


def test_a_transfer_moves_its_amount() -> None:
    team, pool = two_accounts()
    transfer = recorded(a_move(team, pool, 30, reference="quantum 7", reason="lent"))
    assert (sums(team), sums(pool)) == ((-30, 0, 0), (30, 0, 0))
    assert (team.posted_debits, team.posted_credits) == (30, 0)
    assert (transfer.state, transfer.created_at, transfer.reference) == ("posted", NOW, "quantum 7")
    entries = Entry.objects.filter(transfer=transfer).order_by("account_id")
    assert [(e.account_id, e.sequence, e.balance) for e in entries] == [
        (team.id, 1, -30),
        (pool.id, 1, 30),
    ]
    assert bytes(team.head) == bytes(entries[0].hash)


def test_a_batch_is_recorded_in_its_order_and_whole_or_not() -> None:
    """The pool pays only what it was paid before.

    Planted: limits checked from the last transfer of a batch to the first.
    """
    team, pool = a_team_account(floor=-20), open_account(CREDITS, "h100", "pool", floor=0)
    paid, back, again = a_move(team, pool, 20), a_move(pool, team, 15), a_move(team, pool, 14)
    done = record([paid, back, again], now=NOW)
    assert [(each.key, each.is_repeat) for each in done] == [
        (paid.key, False),
        (back.key, False),
        (again.key, False),
    ]
    assert [each.number for each in done] == sorted(each.number for each in done)
    assert (sums(team), sums(pool)) == ((-19, 0, 0), (19, 0, 0))
    sentence = refusal(FloorReached, a_move(pool, team, 20), a_move(team, pool, 20))
    assert sentence.startswith(f"Account {pool.id} may spend 19 more, and transfer ")
    assert sentence.endswith(" takes 20. Lower the amount.")
    assert sums(team) == (-19, 0, 0)


def test_a_repeat_changes_nothing_and_another_body_is_a_conflict() -> None:
    """Planted: a repeat that compares keys alone."""
    team, pool = two_accounts(floor=-10)
    move = a_move(team, pool, 10)
    (first,) = record([move], now=NOW)
    later = NOW + timedelta(days=1)
    new = a_move(pool, team, 1)
    again = record([move, new, new], now=later)
    assert [each.is_repeat for each in again] == [True, False, True]
    assert (again[0].number, again[1].number) == (first.number, again[2].number)
    assert sums(team) == (-9, 0, 0)
    for other in (
        replace(move, amount=9),
        replace(move, reason="because"),
        replace(move, effective_at=later),
        replace(move, enforces_limits=False),
        replace(move, debit_id=a_team_account("vision").id),
    ):
        assert refusal(TransferKeyReused, other) == (
            f"Transfer {move.key} was recorded before with other values. Send the same values, "
            "or take a new key."
        )
    twice = a_move(team, pool, 1)
    assert "other values" in refusal(TransferKeyReused, twice, replace(twice, amount=2))


def test_a_repeat_of_an_expired_hold_is_a_repeat() -> None:
    """Planted: rows that are known already are sent to the database again."""
    team, pool = two_accounts()
    hold = a_hold(team, pool)
    record([hold], now=NOW)
    assert record([hold], now=LATER)[0].is_repeat
    assert "needs an expiry after its recording" in refusal(
        InvalidTransfer, a_hold(team, pool, expires_at=NOW)
    )


def test_a_hold_counts_against_the_floor_until_it_is_resolved() -> None:
    """Planted: the floor is compared with the balance, without what is held."""
    team, pool = two_accounts(floor=-100)
    hold = recorded(a_hold(team, pool, 70))
    assert (sums(team), sums(pool)) == ((0, 70, 0), (0, 0, 70))
    assert team.available == -70
    assert "may spend 30 more" in refusal(FloorReached, a_move(team, pool, 31))
    assert "may spend 30 more" in refusal(FloorReached, a_hold(team, pool, 31))
    record([resolution_of(hold, key=uuid7(), amount=None, effective_at=NOW)], now=NOW)
    assert (sums(team), sums(pool)) == ((0, 0, 0), (0, 0, 0))
    recorded(a_move(team, pool, 100))


def test_a_post_takes_a_part_and_releases_all() -> None:
    """Planted: the hold is released by the amount of the post."""
    team, pool = two_accounts(floor=-70)
    hold = recorded(a_hold(team, pool, 70))
    post = resolution_of(hold, key=uuid7(), amount=25, effective_at=NOW, reference="job 1")
    assert (post.code, post.state) == ("hold", TransferState.POSTED)
    assert PendingTransfer.objects.get().transfer == hold
    record([post], now=LATER - timedelta(seconds=1))
    assert (sums(team), sums(pool)) == ((-25, 0, 0), (25, 0, 0))
    assert not PendingTransfer.objects.exists()


def test_what_was_held_is_always_charged() -> None:
    """A lowered guarantee moves the floor under running work, which is charged all the same."""
    team, pool = two_accounts(floor=-70)
    hold = recorded(a_hold(team, pool, 70))
    set_limits(team.id, floor=0, cap=0)
    record([resolution_of(hold, key=uuid7(), amount=70, effective_at=NOW)], now=NOW)
    assert sums(team) == (-70, 0, 0)


def test_a_pending_transfer_is_resolved_once_and_within_its_amount() -> None:
    team, pool = two_accounts()
    hold = recorded(a_hold(team, pool, 70))
    void = resolution_of(hold, key=uuid7(), amount=None, effective_at=NOW)
    post = resolution_of(hold, key=uuid7(), amount=70, effective_at=NOW)
    fits = "does not fit the pending amount of 70"
    assert fits in refusal(NotResolvable, replace(post, amount=71))
    assert fits in refusal(NotResolvable, replace(void, amount=69))
    assert "have different accounts" in refusal(
        NotResolvable, replace(post, credit_id=a_team_account("vision").id)
    )
    assert "posted or voided before" in refusal(NotResolvable, post, void)
    not_pending = "resolves a transfer that is not pending"
    assert not_pending in refusal(NotResolvable, replace(post, resolves_id=uuid7()))
    assert not_pending in refusal(NotResolvable, replace(post, resolves_id=post.key))
    record([post], now=NOW)
    assert "posted or voided before" in refusal(NotResolvable, void)
    assert not_pending in refusal(NotResolvable, replace(void, resolves_id=post.key, amount=70))
    assert record([post], now=NOW)[0].is_repeat


def test_an_expired_hold_is_voided_and_no_longer_posted() -> None:
    """Planted: the expiry posts the amount."""
    team, pool = two_accounts(floor=-100)
    hold = recorded(a_hold(team, pool, 70))
    recorded(a_hold(team, pool, 5, expires_at=LATER + timedelta(seconds=1)))
    assert void_expired(now=LATER - timedelta(seconds=1)) == 0
    post = resolution_of(hold, key=uuid7(), amount=1, effective_at=NOW)
    with pytest.raises(NotResolvable, match="a pending transfer that has expired"):
        record([post], now=LATER)
    assert void_expired(now=LATER) == 1
    assert (sums(team), sums(pool)) == ((0, 5, 0), (0, 0, 5))
    assert void_expired(now=LATER) == 0
    void = Transfer.objects.get(resolves=hold)
    assert (void.state, void.code, void.amount) == ("voided", "expired", 70)
    assert (void.effective_at, void.created_at) == (LATER, LATER)


def test_expired_holds_are_voided_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "EXPIRED_MAX", 2)
    team, pool = two_accounts()
    record([a_hold(team, pool, 1) for _ in range(3)], now=NOW)
    assert [void_expired(now=LATER) for _ in range(3)] == [2, 1, 0]
    assert sums(team) == (0, 0, 0)


def test_a_reversal_moves_back_once_and_ignores_limits() -> None:
    """Planted: a reversal of a reversal, and limits that bind reversals."""
    team, pool = a_team_account(floor=-10), open_account(CREDITS, "h100", "pool", floor=10)
    move = recorded(a_move(team, pool, 10))
    back = reversal_of(move, key=uuid7(), effective_at=NOW, reason="node fault")
    opposite = "is not the opposite of the transfer that it reverses"
    assert opposite in refusal(NotReversible, replace(back, amount=9))
    assert opposite in refusal(
        NotReversible, replace(back, debit_id=back.credit_id, credit_id=back.debit_id)
    )
    record([back], now=NOW)
    assert (sums(team), sums(pool)) == ((0, 0, 0), (0, 0, 0))
    assert "was reversed before" in refusal(
        NotReversible, reversal_of(move, key=uuid7(), effective_at=NOW)
    )
    again = reversal_of(Transfer.objects.get(key=back.key), key=uuid7(), effective_at=NOW)
    assert "not posted or is a reversal itself" in refusal(NotReversible, again)


def test_a_reversal_is_of_a_posted_transfer() -> None:
    team, pool = two_accounts()
    hold = recorded(a_hold(team, pool, 10))
    wrong = "not posted or is a reversal itself"
    assert wrong in refusal(NotReversible, reversal_of(hold, key=uuid7(), effective_at=NOW))
    post = recorded(resolution_of(hold, key=uuid7(), amount=4, effective_at=NOW))
    unknown = replace(reversal_of(post, key=uuid7(), effective_at=NOW), reverses_id=uuid7())
    assert wrong in refusal(NotReversible, unknown)
    record([reversal_of(post, key=uuid7(), effective_at=NOW)], now=NOW)
    assert (sums(team), sums(pool)) == ((0, 0, 0), (0, 0, 0))


def test_a_cap_bounds_what_is_received() -> None:
    """Planted: pending credits are left out of the cap."""
    team, pool = two_accounts(cap=14)
    recorded(a_move(pool, team, 4))
    recorded(a_hold(pool, team, 7))
    assert "may receive 3 more" in refusal(CapReached, a_move(pool, team, 5))
    recorded(a_move(pool, team, 3))
    recorded(a_move(pool, team, 100, enforces_limits=False))
    assert sums(team) == (107, 0, 7)
    recorded(a_move(team, pool, 1))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"amount": 0}, "The amount of a transfer must be a whole number from 1 to 10^18."),
        ({"amount": -1}, "The amount of a transfer must be a whole number from 1 to 10^18."),
        ({"amount": AMOUNT_MAX + 1}, "The amount of a transfer must be a whole number from 1"),
        ({"amount": 1 << 63}, "has a number beyond 2^63. Lower it."),
        ({"code": "Lent!"}, "A transfer's code must be small letters, digits and underscores."),
        ({"code": "c" * 33}, "must be text of at most 32 characters."),
        ({"reason": "r" * 501}, "must be text of at most 500 characters."),
        ({"reference": "nul \0"}, "must be text of at most 128 characters."),
        ({"reference": "half \ud800"}, "must be text of at most 128 characters."),
        ({"effective_at": NOW.replace(tzinfo=None)}, "must be whole seconds with a time zone."),
        ({"effective_at": NOW.replace(microsecond=1)}, "must be whole seconds with a time zone."),
        ({"expires_at": LATER}, "A pending transfer needs an expiry after its recording"),
        ({"state": TransferState.PENDING}, "A pending transfer needs an expiry"),
        ({"state": TransferState.VOIDED}, "A transfer resolves a pending transfer, reverses"),
    ],
)
def test_values_are_checked(values: dict[str, Any], sentence: str) -> None:
    team, pool = two_accounts()
    assert sentence in refusal(InvalidTransfer, a_move(team, pool, **values))


def test_both_accounts_are_known_and_of_one_ledger() -> None:
    team, pool = two_accounts()
    euros = open_account("money:EUR", "nlp", "team")
    assert "needs two different accounts" in refusal(InvalidTransfer, a_move(team, team))
    assert "accounts of two ledgers" in refusal(InvalidTransfer, a_move(team, euros))
    unknown = replace(a_move(team, pool), credit_id=10**9)
    assert "names an account that does not exist" in refusal(InvalidTransfer, unknown)


def test_a_batch_is_bounded() -> None:
    team, pool = two_accounts()
    move = a_move(team, pool)
    assert refusal(InvalidTransfer, *[move] * (BATCH_MAX + 1)) == (
        "A batch holds at most 5000 transfers. Split it."
    )
    assert record([], now=NOW) == []
    with pytest.raises(ValueError, match="whole seconds"):
        record([move], now=NOW.replace(microsecond=1))


def test_the_largest_sums_are_refused_and_not_wrapped() -> None:
    """Ten transfers of 10^18 are more than a bigint holds."""
    team, pool = two_accounts()
    for _ in range(9):
        recorded(a_move(team, pool, AMOUNT_MAX))
    assert "sums of an account would reach 2^63" in refusal(
        InvalidTransfer, a_move(team, pool, AMOUNT_MAX)
    )
    assert sums(team) == (-9 * AMOUNT_MAX, 0, 0)
