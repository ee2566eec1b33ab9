"""Rows of Cost and Usage of FOCUS 1.4: charges with the commitments that they buy and use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from adjustments.models import Adjustment
from billing.charges import Charge
from billing.models import ExtraCharge, PoolTerms
from billing.rating import cost_nano
from exports.commitments import Commitments
from periods.code_book import Codes
from primitives.units import PPM


class FocusRow(NamedTuple):
    """A row of Cost and Usage: a charge, with its use and its cost by all measures.

    `category` is its ChargeCategory. A correction is of an earlier month. `invoice` has the number
    of the statement that bills it, and of its line there. `commitment` is the one that it buys,
    uses or leaves unused, and `status` says which of the last two. `quantity_mgpu_s` is the priced
    quantity, if any. `codes` are None for those of the file's month.
    """

    category: str
    charge: Charge
    device: str
    currency: str | None
    mgpu_s: int
    list_cost_nano: int
    contracted_cost_nano: int
    billed_cost_nano: int
    effective_cost_nano: int
    quantity_mgpu_s: int | None
    commitment: PoolTerms | None = None
    status: str | None = None
    is_correction: bool = False
    invoice: tuple[str, str] | None = None
    adjustment: Adjustment | None = None
    codes: Codes | None = None


class FocusRows:
    """Rows of Cost and Usage with commitments, for rows in the order of their days and teams.

    Purchases of a commitment are billed, and its used and unused parts are the effective cost. So
    both sums agree. An adjustment takes off the cost of use that exceeded the purchases. Unused
    parts and adjustments follow all charges of the team and day.
    """

    def __init__(self, commitments: Commitments) -> None:
        """Begin with no charge."""
        self._commitments = commitments
        self._account: tuple[datetime, str, bool] | None = None
        self._unused: dict[tuple[str, str | None, int | None], FocusRow] = {}

    def of(self, rows: Iterable[FocusRow]) -> Iterator[FocusRow]:
        """Yield the next rows, after the unused parts of teams and days that ended."""
        for row in rows:
            charge = row.charge
            account = charge.start, charge.team, row.is_correction
            if account != self._account:
                yield from self.rest()
                self._account = account
            is_bought = charge.usage_class == ExtraCharge.COMMITMENT
            terms = None
            if charge.is_of_commitment:
                terms = self._commitments.of(charge.pool, charge.start, charge.end)
            part = row._replace(
                category="Purchase" if is_bought else row.category,
                commitment=terms,
                status=None if is_bought or terms is None else "Used",
            )
            if terms is not None:
                self._balance(part)
            yield part

    def rest(self) -> Iterator[FocusRow]:
        """Yield the unused parts of the last team and day."""
        for row in self._unused.values():
            is_beyond = min(row.quantity_mgpu_s or 0, row.effective_cost_nano) < 0
            if is_beyond and not row.is_correction:
                yield row._replace(
                    category="Adjustment",
                    list_cost_nano=0,
                    contracted_cost_nano=0,
                    quantity_mgpu_s=None,
                    status=None,
                )
            elif row.quantity_mgpu_s or row.effective_cost_nano:
                yield row
        self._unused.clear()

    def _balance(self, row: FocusRow) -> None:
        """Add what is bought to the unused part, or take off what is used."""
        charge = row.charge
        key = charge.pool, charge.rate_line, charge.price_nano
        before = self._unused.get(key)
        if before is None:
            empty = row_of(_without_use(charge))
            before = empty._replace(
                commitment=row.commitment,
                status="Unused",
                is_correction=row.is_correction,
                invoice=row.invoice,
                codes=row.codes,
            )
        elif row.category == "Purchase":
            before = before._replace(invoice=row.invoice)
        quantity_mgpu_s, change_nano = charge.priced_mgpu_s, row.billed_cost_nano
        if row.status == "Used":
            quantity_mgpu_s, change_nano = -quantity_mgpu_s, -row.effective_cost_nano
        quantity_mgpu_s += before.quantity_mgpu_s or 0
        list_nano = cost_nano(
            quantity_mgpu_s, price_nano=charge.price_nano or 0, multiplier_ppm=PPM
        )
        self._unused[key] = before._replace(
            list_cost_nano=list_nano,
            contracted_cost_nano=list_nano,
            effective_cost_nano=before.effective_cost_nano + change_nano,
            quantity_mgpu_s=quantity_mgpu_s,
        )


def row_of(charge: Charge) -> FocusRow:
    """Return the row of a charge as usage without a commitment."""
    return FocusRow(
        category="Usage",
        charge=charge,
        device=charge.device,
        currency=charge.currency,
        mgpu_s=charge.mgpu_s,
        list_cost_nano=charge.list_cost_nano,
        contracted_cost_nano=charge.contracted_cost_nano,
        billed_cost_nano=charge.billed_cost_nano,
        effective_cost_nano=charge.effective_cost_nano,
        quantity_mgpu_s=charge.priced_mgpu_s,
    )


def _without_use(charge: Charge) -> Charge:
    """Return the charge of a commitment with the price of this one, of no use and no cost."""
    return charge._replace(
        usage_class=ExtraCharge.COMMITMENT.value,
        multiplier_ppm=PPM,
        mgpu_s=0,
        priced_mgpu_s=0,
        list_cost_nano=0,
        contracted_cost_nano=0,
        billed_cost_nano=0,
        effective_cost_nano=0,
        user_id="",
        user="",
        cluster="",
        priority_class="",
        job_id="",
        job_name="",
        attempt_id="",
    )


def category_of(adjustment: Adjustment) -> str:
    """Return the ChargeCategory. A credit has nothing to do with other charges; a refund has."""
    is_credit = adjustment.dispute_id is None and adjustment.amount_nano < 0
    return "Credit" if is_credit else "Adjustment"
