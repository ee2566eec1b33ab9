"""What the database refuses, whoever asks: each constraint, trigger and privilege broken once."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import ProgrammingError, connection, transaction

from builders.ledger_builders import (
    CREDITS,
    LATER,
    a_hold,
    a_key,
    a_move,
    recorded,
    refused_by,
    sums,
    two_accounts,
)
from builders.portal_builders import NOW
from bulk.inserting import insert_rows
from ledger.hashing import hash_of_account, hash_of_body
from ledger.models import Account, Entry, PendingTransfer, Transfer

pytestmark = pytest.mark.django_db

#: Statements of the application's role, and the tables that it may not change so.
FORBIDDEN = [
    "UPDATE ledger_transfer SET amount = 1",
    "DELETE FROM ledger_transfer",
    "TRUNCATE ledger_transfer CASCADE",
    "UPDATE ledger_account SET posted_credits = 1",
    "UPDATE ledger_account SET head = ''",
    "UPDATE ledger_account SET owner = 'me'",
    "DELETE FROM ledger_account",
    "TRUNCATE ledger_account CASCADE",
    "INSERT INTO ledger_entry SELECT * FROM ledger_entry",
    "UPDATE ledger_entry SET balance = 1",
    "DELETE FROM ledger_entry",
    "TRUNCATE ledger_entry",
    "INSERT INTO ledger_pendingtransfer SELECT * FROM ledger_pendingtransfer",
    "UPDATE ledger_pendingtransfer SET expires_at = now()",
    "DELETE FROM ledger_pendingtransfer",
    "TRUNCATE ledger_pendingtransfer",
    "UPDATE ledger_seal SET hash = ''",
    "DELETE FROM ledger_seal",
    "TRUNCATE ledger_seal CASCADE",
    "UPDATE ledger_sealedhead SET head = ''",
    "DELETE FROM ledger_sealedhead",
    "TRUNCATE ledger_sealedhead",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_application_may_only_add(statement: str) -> None:
    """Planted: the rights that every new table grants by default."""
    recorded(a_hold(*two_accounts()))
    with (
        pytest.raises(ProgrammingError, match="permission denied"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


@pytest.fixture
def owner(
    owner_connection: psycopg.Connection[Any],
) -> Generator[psycopg.Connection[Any]]:
    """The owner of the tables, beside a ledger with a posted and a pending transfer."""
    team, pool = two_accounts()
    recorded(a_move(team, pool, 3))
    recorded(a_hold(team, pool, 2))
    yield owner_connection
    owner_connection.rollback()
    assert (sums(team), sums(pool)) == ((-3, 2, 0), (3, 0, 2))
    assert (Transfer.objects.count(), Entry.objects.count()) == (2, 4)


@pytest.mark.parametrize(
    ("statement", "trigger"),
    list(
        zip(
            FORBIDDEN,
            [
                *["transfer_is_append_only"] * 3,
                *["account_changes_by_transfers"] * 3,
                *["account_stays"] * 2,
                "entry_comes_from_a_transfer",
                *["entry_is_append_only"] * 3,
                *["pending_comes_from_a_transfer"] * 3,
                "pending_is_never_emptied",
                *["seal_is_append_only"] * 3,
                *["sealed_head_is_append_only"] * 3,
            ],
            strict=True,
        )
    ),
)
def test_not_even_the_owner_changes_history(
    owner: psycopg.Connection[Any], statement: str, trigger: str
) -> None:
    """Against: triggers that look at the role, or at single rows."""
    with pytest.raises(psycopg.errors.IntegrityError) as refusal:
        owner.execute(statement)
    assert refusal.value.diag.constraint_name == trigger


def an_account(**values: Any) -> None:
    given = {"ledger": CREDITS, "owner": "speech", "kind": "team"} | values
    head = hash_of_account(given["ledger"], given["owner"], given["kind"])
    Account.objects.create(**{"head": head, **given})


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("account_is_unique", {"owner": "nlp"}),
        ("account_ledger_name", {"ledger": "credits"}),
        ("account_names_are_plain", {"owner": ""}),
        ("account_names_are_plain", {"kind": "a team"}),
        ("account_floor_is_below_its_cap", {"floor": 1, "cap": 0}),
        ("account_opens_empty", {"posted_debits": 1}),
        ("account_opens_empty", {"posted_credits": 1}),
        ("account_opens_empty", {"pending_debits": 1}),
        ("account_opens_empty", {"pending_credits": 1}),
        ("account_opens_empty", {"sequence": 1}),
        ("account_opens_empty", {"head": hash_of_account(CREDITS, "vision", "team")}),
    ],
)
def test_an_account_opens_empty_and_named(constraint: str, values: dict[str, Any]) -> None:
    two_accounts()
    refused_by(constraint, lambda: an_account(**values))


def test_sums_are_not_negative(owner: psycopg.Connection[Any]) -> None:
    """Triggers are off, so that only the constraint is left."""
    owner.execute("SET session_replication_role = replica")
    for column in (
        "posted_debits",
        "posted_credits",
        "pending_debits",
        "pending_credits",
        "sequence",
    ):
        with pytest.raises(psycopg.errors.CheckViolation, match="account_sums_are_not_negative"):
            owner.execute(f"UPDATE ledger_account SET {column} = -1")
        owner.rollback()
        owner.execute("SET session_replication_role = replica")


def a_row(team: Account, pool: Account, **values: Any) -> dict[str, Any]:
    """The columns of a transfer, with the right hash unless `values` has another one."""
    body = {
        "key": a_key(7),
        "debit_id": team.id,
        "credit_id": pool.id,
        "amount": 5,
        "state": "posted",
        "code": "lent",
        "resolves_id": None,
        "reverses_id": None,
        "enforces_limits": True,
        "effective_at": NOW,
        "expires_at": None,
        "reference": "",
        "reason": "",
    } | values
    given = body.pop("body_hash", None) or f"\\x{hash_of_body(**body).hex()}"
    return body | {"created_at": NOW, "body_hash": given}


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("transfer_moves_something", {"amount": 0}),
        ("transfer_moves_something", {"amount": 10**18 + 1}),
        ("transfer_has_one_purpose", {"state": "lost"}),
        ("transfer_code_is_plain", {"code": "L"}),
        ("transfer_expires_if_pending", {"state": "pending"}),
        ("transfer_expires_if_pending", {"state": "pending", "expires_at": NOW}),
        ("transfer_expires_if_pending", {"expires_at": LATER}),
        ("transfer_has_one_purpose", {"state": "voided"}),
        ("transfer_has_one_purpose", {"state": "voided", "reverses_id": a_key(1)}),
        ("transfer_has_one_purpose", {"resolves_id": a_key(2), "reverses_id": a_key(1)}),
        (
            "transfer_has_one_purpose",
            {"state": "pending", "expires_at": LATER, "resolves_id": a_key(2)},
        ),
        (
            "transfer_has_one_purpose",
            {"state": "pending", "expires_at": LATER, "reverses_id": a_key(1)},
        ),
        ("transfer_hash_is_of_its_body", {"body_hash": "\\x00"}),
        ("ledger_transfer_key_key", {"key": a_key(1)}),
        ("transfer_accounts_exist", {"debit_id": 10**9}),
        ("transfer_is_resolved_once", {"resolves_id": a_key(4), "amount": 1}),
        ("resolution_names_a_pending_transfer", {"resolves_id": a_key(1)}),
        ("resolution_names_a_pending_transfer", {"resolves_id": a_key(9)}),
        ("resolution_fits_the_pending_amount", {"resolves_id": a_key(2), "amount": 3}),
        (
            "resolution_fits_the_pending_amount",
            {"resolves_id": a_key(2), "amount": 1, "state": "voided"},
        ),
        ("transfer_is_reversed_once", {"reverses_id": a_key(3)}),
        ("reversal_names_a_posted_transfer", {"reverses_id": a_key(2)}),
        ("reversal_names_a_posted_transfer", {"reverses_id": a_key(6)}),
        ("reversal_is_the_exact_opposite", {"reverses_id": a_key(1)}),
    ],
)
def test_each_rule_of_transfers_is_the_databases(constraint: str, values: dict[str, Any]) -> None:
    """No function of ours is between these rows and the table.

    The ledger has: 1 posted, 2 pending, 3 posted and reversed by 6, 4 pending and voided by 5.
    """
    team, pool = two_accounts()
    rows = [
        a_row(team, pool, key=a_key(1)),
        a_row(team, pool, key=a_key(2), amount=2, state="pending", expires_at=LATER),
        a_row(team, pool, key=a_key(3)),
        a_row(team, pool, key=a_key(4), amount=1, state="pending", expires_at=LATER),
        a_row(team, pool, key=a_key(5), amount=1, state="voided", resolves_id=a_key(4)),
        a_row(pool, team, key=a_key(6), reverses_id=a_key(3)),
    ]
    insert_rows(Transfer, rows)
    before = (sums(team), sums(pool), PendingTransfer.objects.count())
    assert before == ((-5, 2, 0), (5, 0, 2), 1)
    refused_by(constraint, lambda: insert_rows(Transfer, [a_row(team, pool, **values)]))
    assert (sums(team), sums(pool), PendingTransfer.objects.count()) == before


def test_accounts_of_a_transfer_differ_and_share_a_ledger() -> None:
    team, pool = two_accounts()
    an_account(ledger="money:EUR")
    euros = Account.objects.get(ledger="money:EUR")
    refused_by(
        "transfer_has_two_accounts",
        lambda: insert_rows(Transfer, [a_row(team, pool, credit_id=team.id)]),
    )
    refused_by(
        "transfer_stays_in_its_ledger",
        lambda: insert_rows(Transfer, [a_row(team, pool, credit_id=euros.id)]),
    )


def test_a_hold_keeps_its_accounts_and_ends() -> None:
    team, pool = two_accounts()
    hold = recorded(a_hold(team, pool, 2))
    other = a_row(pool, team, resolves_id=hold.key, amount=1)
    refused_by("resolution_keeps_the_accounts", lambda: insert_rows(Transfer, [other]))
    late = a_row(team, pool, resolves_id=hold.key, amount=1) | {"created_at": LATER}
    refused_by("resolution_comes_before_the_expiry", lambda: insert_rows(Transfer, [late]))


def test_an_entry_is_one_of_its_transfer_and_account(owner: psycopg.Connection[Any]) -> None:
    owner.execute("SET session_replication_role = replica")
    for change, key in (
        ("sequence = sequence + 9", "entry_once_per_transfer_and_account"),
        ("transfer_id = -1", "ledger_entry_pkey"),
    ):
        with pytest.raises(psycopg.errors.UniqueViolation, match=key):
            owner.execute(
                "CREATE TEMP TABLE copied ON COMMIT DROP AS SELECT * FROM ledger_entry LIMIT 1;"
                f"UPDATE copied SET {change}; INSERT INTO ledger_entry SELECT * FROM copied"
            )
        owner.rollback()
        owner.execute("SET session_replication_role = replica")


def test_the_rules_can_be_taken_back_and_set_again(
    owner_connection: psycopg.Connection[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Both directions of the migrations, as SQL that runs."""
    with owner_connection.transaction(force_rollback=True):
        for words in (
            ["0004", "--backwards"],
            ["0003", "--backwards"],
            ["0002", "--backwards"],
            ["0001", "--backwards"],
            ["0001"],
            ["0002"],
            ["0003"],
            ["0004"],
        ):
            call_command("sqlmigrate", "ledger", *words)
            statements = capsys.readouterr().out
            owner_connection.execute(
                "\n".join(
                    line for line in statements.splitlines() if line not in ("BEGIN;", "COMMIT;")
                )
            )
        rules = owner_connection.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'ledger%' "
            "AND NOT tgisinternal"
        ).fetchone()
    assert rules == (11,)
