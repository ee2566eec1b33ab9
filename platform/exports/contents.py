"""The rows and columns of each dataset that can be exported."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from django.conf import settings

from adjustments.months import first_day_of
from bank.settling import zone_of
from billing.charges import charges_of
from billing.periods import Period
from exports.closed_tables import CLOSED_COLUMNS, closed_batches, closed_month
from exports.commitment_tables import commitment_batches, contract_commitment
from exports.commitments import Commitments
from exports.focus_months import adjustment_rows, closed_focus_batches
from exports.focus_rows import FocusRow, FocusRows, row_of
from exports.focus_tables import Billing, billing_period, cost_and_usage
from exports.invoice_tables import invoice_batches, invoice_detail
from exports.models import PERMILLE, Export, ExportDataset, PseudonymKey, UserNaming
from exports.tables import CHARGE_COLUMNS, Column
from periods.code_book import code_book
from tenants.access import Actor
from tenants.places import visible_place
from tenants.roles import Permission

#: Datasets of an organization's books, by month: charges as frozen, commitments and statements.
_STORED: Mapping[str, Callable[[Export], Iterator[Sequence[Any]]]] = {
    ExportDataset.CLOSED_CHARGES: closed_batches,
    ExportDataset.FOCUS_CONTRACT_COMMITMENT: commitment_batches,
    ExportDataset.FOCUS_INVOICE_DETAIL: invoice_batches,
}


def columns_of(export: Export) -> Sequence[Column]:
    """Return the columns of the file."""
    if export.dataset == ExportDataset.CHARGES:
        return CHARGE_COLUMNS
    if export.dataset == ExportDataset.CLOSED_CHARGES:
        return CLOSED_COLUMNS
    if export.dataset == ExportDataset.FOCUS_BILLING_PERIOD:
        return billing_period(_billing(export))
    if export.dataset == ExportDataset.FOCUS_CONTRACT_COMMITMENT:
        return contract_commitment(_billing(export))
    if export.dataset == ExportDataset.FOCUS_INVOICE_DETAIL:
        return invoice_detail(_billing(export))
    return cost_and_usage(_billing(export))


def _billing(export: Export) -> Billing:
    closed = closed_month(export)
    month = first_day_of(export.start, zone_of(export.organization_id))
    return Billing(
        provider=settings.PROVIDER_NAME,
        account=export.organization.slug,
        account_name=export.organization.name,
        start=export.start,
        end=export.end,
        updated_at=max(export.start, export.as_of) if closed is None else closed.closed_at,
        is_closed=closed is not None,
        pseudonym_key=_pseudonym_key(export),
        month=month,
        book=code_book([export.organization_id], month, month),
    )


def _pseudonym_key(export: Export) -> bytes | None:
    """Return the key of the file's pseudonyms. None without pseudonyms."""
    if export.users != UserNaming.PSEUDONYMS:
        return None
    return bytes(PseudonymKey.objects.get(organization=export.organization_id).key)


def batches_of(export: Export, actor: Actor) -> Generator[tuple[Sequence[Any], int], None, None]:
    """Yield rows, and the written part of the file in thousandths. Raises as `charges_of`."""
    path = export.node_path.rstrip("/")
    if export.dataset == ExportDataset.FOCUS_BILLING_PERIOD:
        visible_place(actor, path, Permission.VIEW_COSTS, Permission.VIEW_JOBS)
        # All cells of the one row are known without it.
        yield [None], PERMILLE
        return
    if export.dataset in _STORED:
        visible_place(actor, path, Permission.VIEW_COSTS, Permission.VIEW_JOBS)
        for stored in _STORED[export.dataset](export):
            yield stored, 0
        return
    period = closed_month(export)
    if export.dataset == ExportDataset.FOCUS_COST_AND_USAGE and period is not None:
        visible_place(actor, path, Permission.VIEW_COSTS, Permission.VIEW_JOBS)
        for frozen in closed_focus_batches(export, period):
            yield frozen, 0
        return
    charges = charges_of(
        actor=actor,
        period=Period(export.start, export.end, export.as_of),
        node_path=path,
        pool_name=export.pool or None,
    )
    with closing(charges):
        focus = FocusRows(Commitments(export.organization_id, known_at=None))
        for batch in charges:
            progress = batch.days_done * PERMILLE // batch.days
            if export.dataset == ExportDataset.CHARGES:
                yield batch.rows, progress
            else:
                yield list(focus.of(map(row_of, batch.rows))), progress
        if last := [*focus.rest(), *_adjustments(export)]:
            yield last, PERMILLE


def _adjustments(export: Export) -> Iterator[FocusRow]:
    """Yield the adjustments of the month of a file of FOCUS."""
    if export.dataset == ExportDataset.FOCUS_COST_AND_USAGE:
        yield from adjustment_rows(export)
