"""Refusals of the ledger. Each one is a sentence that says what to do; nothing was recorded."""

from __future__ import annotations

import json
from typing import Any

from django.db import DatabaseError
from psycopg.errors import NumericValueOutOfRange

from primitives.errors import Conflict, InvalidRequest


class InvalidTransfer(InvalidRequest):
    """A transfer or an account breaks a rule that does not depend on what is recorded."""

    code = "invalid_transfer"
    title = "The transfer is not valid"


class TransferKeyReused(Conflict):
    """Another transfer was recorded with the same key."""

    code = "transfer_key_reused"


class FloorReached(Conflict):
    """The account that pays would fall below its floor. `room` is what it may still spend."""

    code = "floor_reached"


class CapReached(Conflict):
    """The account that is paid would rise above its cap. `room` is what it may still receive."""

    code = "cap_reached"


class NotResolvable(Conflict):
    """The transfer to post or void is not pending, has expired, or differs from the resolution."""

    code = "transfer_not_resolvable"


class NotReversible(Conflict):
    """The transfer to reverse is not posted, is reversed already, or differs from the reversal."""

    code = "transfer_not_reversible"


#: Maps each constraint of the database to its error and its sentence.
_REFUSALS: dict[str, tuple[type[Conflict] | type[InvalidRequest], str]] = {
    "account_ledger_name": (
        InvalidTransfer,
        "A ledger's name must be like credits:h100 or money:EUR.",
    ),
    "account_names_are_plain": (
        InvalidTransfer,
        "An account needs an owner, and a kind of small letters, digits and underscores.",
    ),
    "account_floor_is_below_its_cap": (
        InvalidTransfer,
        "An account's floor must not be above its cap.",
    ),
    "transfer_moves_something": (
        InvalidTransfer,
        "The amount of a transfer must be a whole number from 1 to 10^18.",
    ),
    "transfer_has_two_accounts": (
        InvalidTransfer,
        "A transfer needs two different accounts.",
    ),
    "transfer_accounts_exist": (
        InvalidTransfer,
        "Transfer {transfer} names an account that does not exist. Open the account first.",
    ),
    "transfer_stays_in_its_ledger": (
        InvalidTransfer,
        "Transfer {transfer} names accounts of two ledgers. Use two accounts of one ledger.",
    ),
    "transfer_code_is_plain": (
        InvalidTransfer,
        "A transfer's code must be small letters, digits and underscores.",
    ),
    "transfer_expires_if_pending": (
        InvalidTransfer,
        "A pending transfer needs an expiry after its recording, and no other transfer has one.",
    ),
    "transfer_has_one_purpose": (
        InvalidTransfer,
        "A transfer resolves a pending transfer, reverses a posted one, or does neither.",
    ),
    "ledger_transfer_key_key": (
        TransferKeyReused,
        "A key of this batch was recorded before with other accounts. Send the same values, or "
        "take a new key.",
    ),
    "account_keeps_its_floor": (
        FloorReached,
        "Account {account} may spend {room} more, and transfer {transfer} takes {amount}. "
        "Lower the amount.",
    ),
    "account_keeps_its_cap": (
        CapReached,
        "Account {account} may receive {room} more, and transfer {transfer} gives {amount}. "
        "Lower the amount.",
    ),
    "transfer_is_resolved_once": (
        NotResolvable,
        "A pending transfer of this batch was posted or voided before. Leave it out.",
    ),
    "resolution_names_a_pending_transfer": (
        NotResolvable,
        "Transfer {transfer} resolves a transfer that is not pending. Name a pending one.",
    ),
    "resolution_keeps_the_accounts": (
        NotResolvable,
        "Transfer {transfer} and the pending transfer have different accounts. Use the same.",
    ),
    "resolution_fits_the_pending_amount": (
        NotResolvable,
        "Transfer {transfer} does not fit the pending amount of {limit}. Post at most that, "
        "or void all of it.",
    ),
    "resolution_comes_before_the_expiry": (
        NotResolvable,
        "Transfer {transfer} posts a pending transfer that has expired. Void it, and record a "
        "new transfer.",
    ),
    "transfer_is_reversed_once": (
        NotReversible,
        "A transfer of this batch was reversed before. Leave its reversal out.",
    ),
    "reversal_names_a_posted_transfer": (
        NotReversible,
        "Transfer {transfer} reverses a transfer that is not posted or is a reversal itself. "
        "Name a posted one.",
    ),
    "reversal_is_the_exact_opposite": (
        NotReversible,
        "Transfer {transfer} is not the opposite of the transfer that it reverses. Swap the "
        "accounts, and keep the amount.",
    ),
}


def refusal_of(error: DatabaseError) -> Conflict | InvalidRequest | None:
    """Return the refusal for an error of the database. None: the ledger does not expect it."""
    if isinstance(error.__cause__, NumericValueOutOfRange):
        return InvalidTransfer("The sums of an account would reach 2^63. Open a new account.")
    diagnostics = getattr(error.__cause__, "diag", None)
    name = getattr(diagnostics, "constraint_name", None)
    if name not in _REFUSALS:
        return None
    kind, sentence = _REFUSALS[name]
    data: dict[str, Any] = {}
    if "{" in sentence:
        data = json.loads(getattr(diagnostics, "message_detail", "") or "{}")
    return kind(sentence.format(**data), rule=name, **data)
