"""The proof finds and names what somebody changed beside the ledger, with triggers off."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from uuid_utils.compat import uuid7

from builders.ledger_builders import (
    CREDITS,
    a_hold,
    a_key,
    a_move,
    recorded,
    two_accounts,
)
from builders.portal_builders import NOW
from ledger import proof
from ledger.hashing import hash_of_seal
from ledger.models import Account, Seal, SealedHead
from ledger.proof import find_faults
from ledger.sealing import seal
from ledger.transfers import record, resolution_of, reversal_of

pytestmark = pytest.mark.django_db(transaction=True)

Tamper = Callable[[str], None]


@pytest.fixture
def books() -> tuple[Account, Account]:
    """Two accounts with one transfer of each sort; keys 1 to 6 in the order of recording."""
    team, pool = two_accounts()
    first = recorded(a_move(team, pool, 10, key=a_key(1), reason='naïve "q" \\ \n\t\x01\x7f 😀'))
    hold = recorded(a_hold(team, pool, 7, key=a_key(2)))
    other = recorded(a_hold(team, pool, 5, key=a_key(3)))
    batch = [
        resolution_of(hold, key=a_key(4), amount=3, effective_at=NOW),
        resolution_of(other, key=a_key(5), amount=None, effective_at=NOW),
        reversal_of(first, key=a_key(6), effective_at=NOW),
    ]
    record(batch, now=NOW)
    return team, pool


@pytest.fixture
def tamper(books: object, owner_connection: psycopg.Connection[Any]) -> Generator[Tamper]:
    """Runs a statement as the owner, without triggers and without what guards single rows."""

    def run(statement: str) -> None:
        owner_connection.execute(statement)
        owner_connection.commit()

    (check,) = owner_connection.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conname = 'transfer_hash_is_of_its_body'"
    ).fetchone() or ("",)
    (index,) = owner_connection.execute(
        "SELECT pg_get_indexdef('transfer_is_resolved_once'::regclass)"
    ).fetchone() or ("",)
    run(
        "SET session_replication_role = replica;"
        "ALTER TABLE ledger_transfer DROP CONSTRAINT transfer_hash_is_of_its_body;"
        "DROP INDEX transfer_is_resolved_once"
    )
    yield run
    run(
        "TRUNCATE ledger_account, ledger_transfer, ledger_entry, ledger_pendingtransfer,"
        " ledger_seal, ledger_sealedhead;"
        f"ALTER TABLE ledger_transfer ADD CONSTRAINT transfer_hash_is_of_its_body {check}; {index}"
    )


def found() -> list[str]:
    return [fault.sentence for fault in find_faults(CREDITS)]


def test_an_untouched_ledger_has_no_faults(
    books: tuple[Account, Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hashes of Python are those of the database, and pages of any size join."""
    seal(CREDITS, now=NOW)
    for size in (1, 2, 5, 100):
        monkeypatch.setattr(proof, "_PAGE", size)
        monkeypatch.setattr(proof, "_TRANSFERS_AT_ONCE", size)
        assert found() == []
    assert find_faults("money:EUR") == []


def test_an_edited_amount_is_named(books: tuple[Account, Account], tamper: Tamper) -> None:
    """Planted: hashes of bodies are not computed again."""
    tamper(f"UPDATE ledger_transfer SET amount = 11 WHERE key = '{a_key(1)}'")
    assert f"Transfer {a_key(1)} was changed after it was recorded." in found()


@pytest.mark.parametrize(
    "change",
    [
        "reason = ''",
        "reference = 'x'",
        "code = 'other'",
        "effective_at = effective_at + interval '1 second'",
        "enforces_limits = NOT enforces_limits",
        "state = 'pending', expires_at = created_at + interval '1 day'",
    ],
)
def test_any_edited_value_is_named(tamper: Tamper, change: str) -> None:
    tamper(f"UPDATE ledger_transfer SET {change} WHERE key = '{a_key(1)}'")
    assert f"Transfer {a_key(1)} was changed after it was recorded." in found()


def test_an_edited_amount_with_its_hash_breaks_the_chain(
    books: tuple[Account, Account], tamper: Tamper
) -> None:
    team, _ = books
    tamper(
        f"""
        UPDATE ledger_transfer SET reason = '', body_hash = ledger_hash(json_build_array(
            key, debit_id, credit_id, amount, state, code, resolves_id, reverses_id,
            enforces_limits, ledger_microseconds(effective_at), null, reference, ''
        )) WHERE key = '{a_key(1)}'
        """
    )
    sentence = f"Entry 1 of account {team.id} does not follow the entry before: its hash is another"
    assert found()[0].startswith(sentence)


def test_a_dropped_entry_is_named(books: tuple[Account, Account], tamper: Tamper) -> None:
    """Planted: numbers of entries are not compared."""
    team, _ = books
    tamper(f"DELETE FROM ledger_entry WHERE account_id = {team.id} AND sequence = 3")
    sentences = found()
    assert (
        f"1 entries before entry 4 of account {team.id} are gone, or their transfers." in sentences
    )
    assert f"Transfer {a_key(3)} has no entry at one of its accounts." in sentences


def test_a_dropped_last_entry_is_named(books: tuple[Account, Account], tamper: Tamper) -> None:
    team, _ = books
    tamper(f"DELETE FROM ledger_entry WHERE account_id = {team.id} AND sequence = 6")
    assert found() == [
        f"Account {team.id} has 6 entries and the balance -3; its entries make 5 and -13.",
        f"Transfer {a_key(6)} has no entry at one of its accounts.",
    ]


def test_two_swapped_entries_are_named(books: tuple[Account, Account], tamper: Tamper) -> None:
    team, _ = books
    tamper(
        f"""
        UPDATE ledger_entry SET sequence = -sequence
        WHERE account_id = {team.id} AND sequence IN (2, 3);
        UPDATE ledger_entry SET sequence = 5 + sequence
        WHERE account_id = {team.id} AND sequence < 0
        """
    )
    assert [sentence.split(" has ")[0] for sentence in found()[:2]] == [
        f"Entry 2 of account {team.id}",
        f"Entry 3 of account {team.id}",
    ]


def test_a_dropped_transfer_is_named(books: tuple[Account, Account], tamper: Tamper) -> None:
    tamper(f"DELETE FROM ledger_transfer WHERE key = '{a_key(5)}'")
    sentences = found()
    for account in books:
        gone = f"1 entries before entry 6 of account {account.id} are gone, or their transfers."
        assert gone in sentences


@pytest.mark.parametrize(
    "change",
    [
        "posted_credits = posted_credits + 5",
        "pending_debits = pending_debits + 1",
        "owner = 'vision'",
        "head = sha256('')",
        "sequence = 5",
    ],
)
def test_an_edited_account_is_named(
    books: tuple[Account, Account], tamper: Tamper, change: str
) -> None:
    """Planted: the sums of accounts are not compared."""
    team, _ = books
    tamper(f"UPDATE ledger_account SET {change} WHERE id = {team.id}")
    assert any(f"ccount {team.id} " in sentence for sentence in found())


def test_balances_that_do_not_cancel_are_named(
    books: tuple[Account, Account], tamper: Tamper
) -> None:
    tamper(f"UPDATE ledger_account SET posted_credits = 99 WHERE id = {books[0].id}")
    assert found()[0] == "The posted sums of credits:h100 make 89 instead of 0."


def test_a_forged_pending_row_is_named(tamper: Tamper) -> None:
    tamper(
        "INSERT INTO ledger_pendingtransfer SELECT number, now() FROM ledger_transfer "
        f"WHERE key = '{a_key(1)}'"
    )
    assert found() == [f"Transfer {a_key(1)} is wrongly in or out of the list of pending ones."]
    recorded(a_hold(*two_accounts(), key=a_key(9)))
    tamper("DELETE FROM ledger_pendingtransfer")
    assert found() == [f"Transfer {a_key(9)} is wrongly in or out of the list of pending ones."]


def test_a_second_resolution_is_named(tamper: Tamper) -> None:
    tamper(f"UPDATE ledger_transfer SET resolves_id = '{a_key(2)}' WHERE key = '{a_key(5)}'")
    assert f"Transfer {a_key(2)} is resolved more than once." in found()


def test_a_rewritten_history_breaks_the_seal(tamper: Tamper) -> None:
    """The last transfer is gone without a trace, and only the seal knows of it.

    Planted: sealed heads are not compared with entries.
    """
    seal(CREDITS, now=NOW)
    accounts = list(Account.objects.order_by("id"))
    tamper(
        f"""
        DELETE FROM ledger_entry WHERE sequence = 6;
        DELETE FROM ledger_transfer WHERE key = '{a_key(6)}';
        UPDATE ledger_account a SET sequence = 5, head = e.hash,
            posted_debits = posted_debits - CASE WHEN posted_debits = 10 THEN 10 ELSE 0 END,
            posted_credits = posted_credits - CASE WHEN posted_debits = 10 THEN 0 ELSE 10 END
        FROM ledger_entry e WHERE e.account_id = a.id AND e.sequence = 5
        """
    )
    assert found() == [
        f"Seal 1 of credits:h100 has another history of account {account.id}."
        for account in accounts
    ]


def test_seals_follow_each_other(books: tuple[Account, Account], tamper: Tamper) -> None:
    """Planted: the hash of a seal leaves out the seal before."""
    team, pool = books
    first = seal(CREDITS, now=NOW)
    recorded(a_move(team, pool, 1, key=uuid7()))
    second = seal(CREDITS, now=NOW + timedelta(days=1))
    assert (first.number, second.number) == (1, 2)
    heads = SealedHead.objects.filter(seal=second).order_by("account_id")
    assert list(heads.values_list("sequence", flat=True)) == [7, 7]
    alone = hash_of_seal(
        b"",
        ledger=CREDITS,
        number=2,
        sealed_at=second.sealed_at,
        heads=heads.values_list("account_id", "sequence", "head"),
    )
    assert bytes(second.hash) != alone
    assert found() == []
    tamper(f"UPDATE ledger_seal SET sealed_at = now() WHERE id = {second.id}")
    assert found() == ["Seal 2 of credits:h100 is broken: its hash is another one."]
    tamper(f"DELETE FROM ledger_sealedhead WHERE seal_id = {first.id}")
    assert "Seal 1 of credits:h100 is broken: its hash is another one." in found()
    tamper(f"DELETE FROM ledger_seal WHERE id = {first.id}")
    assert found() == ["Seal 2 of credits:h100 is broken: its hash is another one."]
    assert Seal.objects.count() == 1


def test_a_proof_names_a_bounded_number_of_faults(
    tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "FAULTS_MAX", 3)
    tamper("UPDATE ledger_transfer SET reason = 'another'")
    assert len(found()) == 3
