"""The charges of a month: fresh from the meter, and as corrections of closed months."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from uuid import UUID

from billing.chargeback import Row, chargeback
from billing.models import UsageClass
from billing.periods import Period
from periods.models import BillingPeriod, ChargeRow
from periods.months import Month
from tenants.access import Actor
from tenants.models import Node

#: The most closed months before a month whose late facts become corrections in it.
CORRECTED_MONTHS_MAX = 12

#: First day of the month, day, team, its path, pool, device and usage class.
Key = tuple[date, date, UUID, str, str, str, str]
#: Use, its unpriced part (milli-GPU-seconds), and cost (nano-currency).
Sums = tuple[int, int, int]


def charges_of(month: Month, organization: Node, actor: Actor) -> dict[Key, Sums]:
    """Return the charges of the month by the meter and the prices now, without zeros."""
    found: dict[Key, Sums] = {}
    for day, start, end in month.days():
        report = chargeback(
            actor=actor,
            period=Period(start, end, as_of=end),
            node_path=organization.display_path,
        )
        for row in report.team_rows:
            for usage_class, sums in _by_class(row):
                if any(sums):
                    key = (
                        month.first,
                        day,
                        row.node.pk,
                        row.node.display_path,
                        row.pool,
                        row.device.value,
                        usage_class,
                    )
                    found[key] = sums
    return found


def _by_class(row: Row) -> Iterable[tuple[str, Sums]]:
    amounts = row.amounts
    yield (
        UsageClass.GUARANTEED.value,
        (
            amounts.guaranteed_mgpu_s,
            amounts.unpriced_guaranteed_mgpu_s,
            amounts.guaranteed_cost_nano,
        ),
    )
    yield (
        UsageClass.BORROWED.value,
        (amounts.borrowed_mgpu_s, amounts.unpriced_borrowed_mgpu_s, amounts.borrowed_cost_nano),
    )


def corrections_of(
    closed: Iterable[tuple[BillingPeriod, Month]], organization: Node, actor: Actor
) -> dict[Key, Sums]:
    """Return what the charges of closed months lack by now, with the sign of the change.

    Corrections in later months count as charged.
    """
    found: dict[Key, Sums] = {}
    for period, month in closed:
        fresh = charges_of(month, organization, actor)
        frozen = _frozen(period)
        for key in fresh.keys() | frozen.keys():
            now, was = fresh.get(key, (0, 0, 0)), frozen.get(key, (0, 0, 0))
            change = (now[0] - was[0], now[1] - was[1], now[2] - was[2])
            if any(change):
                found[key] = change
    return found


def _frozen(period: BillingPeriod) -> Mapping[Key, Sums]:
    """Return what closed months charge for the use of one of them."""
    sums: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    rows = ChargeRow.objects.filter(period__organization=period.organization_id, month=period.month)
    for row in rows:
        key = (
            row.month,
            row.day,
            row.team_id,
            row.team_path,
            row.pool,
            row.device,
            row.usage_class,
        )
        for place, amount in enumerate((row.mgpu_s, row.unpriced_mgpu_s, row.cost_nano)):
            sums[key][place] += amount
    return {key: (total[0], total[1], total[2]) for key, total in sums.items()}


def rows_of(
    period: BillingPeriod, charges: Mapping[Key, Sums], corrections: Mapping[Key, Sums]
) -> list[ChargeRow]:
    """Return the numbered rows of a month: charges before corrections, each in the same order."""
    rows: list[ChargeRow] = []
    for is_correction, found in ((False, charges), (True, corrections)):
        for key in sorted(found, key=lambda key: (key[1], key[3], *map(str, key))):
            month, day, team_id, team_path, pool, device, usage_class = key
            mgpu_s, unpriced_mgpu_s, cost_nano = found[key]
            rows.append(
                ChargeRow(
                    period=period,
                    number=len(rows) + 1,
                    is_correction=is_correction,
                    month=month,
                    day=day,
                    team_id=team_id,
                    team_path=team_path,
                    pool=pool,
                    device=device,
                    usage_class=usage_class,
                    mgpu_s=mgpu_s,
                    unpriced_mgpu_s=unpriced_mgpu_s,
                    cost_nano=cost_nano,
                )
            )
    return rows
