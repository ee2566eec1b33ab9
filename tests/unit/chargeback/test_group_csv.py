"""The CSV: safe in a spreadsheet, exact to the last digit."""

from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO

import pytest

from billing.amounts import Amounts
from billing.models import RateCard, RateLine
from billing.periods import Period
from builders.billing_builders import LATER, at
from chargeback.dimensions import Dimension
from chargeback.group_csv import COLUMNS, cost_text, csv_lines, gpu_hours_text
from chargeback.reports import EVERYTHING, GroupedReport, GroupRow
from clusters.models import Pool
from primitives.csv_text import plain_text
from primitives.units import DeviceKind
from tenants.models import Node


def a_report(
    *keys: str,
    by: tuple[Dimension, ...] = (Dimension.TEAM, Dimension.POOL),
    amounts: Amounts | None = None,
    device: DeviceKind = DeviceKind.GPU,
    currency: str | None = "EUR",
) -> GroupedReport:
    amounts = amounts or Amounts(guaranteed_mgpu_s=3_600_000, jobs=1, guaranteed_jobs=1)
    return GroupedReport(
        totals=amounts,
        totals_by_device={device: amounts},
        segments_mgpu_s=amounts.mgpu_s,
        by=by,
        period=Period(at(0), at(3_600), LATER),
        time_zone="UTC",
        narrowed=EVERYTHING,
        rows=(GroupRow(keys, device, currency, amounts),),
        by_currency=(),
        buckets=(),
        corrections=(),
        priced_at=None,
    )


def cells(report: GroupedReport) -> list[list[str]]:
    return list(csv.reader(StringIO("".join(csv_lines(report)), newline="")))


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "|cmd",
        "%appdata%",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1",
        "＋1",
        "－1",
        "＠x",
        "｜x",
        "％x",
        " =1",
        "\u00a0=1",
        "\u3000＝1",
        "\ufeff=1",
        '=HYPERLINK("http://example.org")',
    ],
)
def test_a_name_is_never_a_formula(text: str) -> None:
    assert plain_text(text) == f"'{text}"
    (_, row) = cells(a_report(text, text))
    assert row[:2] == [f"'{text}"] * 2


@pytest.mark.parametrize("text", ["", "nlp", "a-b", "h100.80g", "1", "ünïcode", "a=b", "x|y"])
def test_a_harmless_name_stays_as_it_is(text: str) -> None:
    assert plain_text(text) == text


def test_commas_quotes_and_line_breaks_stay_inside_their_cell() -> None:
    (header, row) = cells(a_report('org/a,"b"\nc/team', "h100"))
    assert tuple(header) == ("team", "pool", *COLUMNS)
    assert row[:2] == ['org/a,"b"\nc/team', "h100"]


def named(report: GroupedReport) -> dict[str, str]:
    """Return the cells of the only row, by column."""
    header, row = cells(report)
    return dict(zip(header, row, strict=True))


def test_a_row_has_each_class_and_the_charges_beside_use() -> None:
    """All costs but showback sum to the cost, and all classes to the use."""
    amounts = Amounts(
        guaranteed_mgpu_s=3_600,
        borrowed_mgpu_s=7_200,
        unpaid_mgpu_s=36,
        fault_mgpu_s=72,
        guaranteed_cost_nano=1,
        borrowed_cost_nano=2_000_000_000,
        unpaid_cost_nano=5,
        unpriced_borrowed_mgpu_s=7_200,
        jobs=3,
        guaranteed_jobs=2,
        commitment_mgpu_s=3_600_000,
        commitment_cost_nano=3_000_000_000,
        top_up_mgpu_s=1_000,
        top_up_cost_nano=7,
        showback_top_up_nano=3,
    )
    assert named(a_report("org/team", "h100", amounts=amounts)) == {
        "team": "org/team",
        "pool": "h100",
        "device": "gpu",
        "currency": "EUR",
        "guaranteed_gpu_hours": "0.001000",
        "borrowed_gpu_hours": "0.002000",
        "unpaid_gpu_hours": "0.000010",
        "fault_gpu_hours": "0.000020",
        "gpu_hours": "0.003030",
        "mgpu_seconds": "10908",
        "guaranteed_cost": "0.000000001",
        "borrowed_cost": "2.000000000",
        "unpaid_cost": "0.000000005",
        "cost": "5.000000013",
        "unpriced_mgpu_seconds": "7200",
        "jobs": "3",
        "period_start": "2026-11-01T00:00:00+00:00",
        "period_end": "2026-11-01T01:00:00+00:00",
        "as_of": LATER.isoformat(),
        "time_zone": "UTC",
        "priced_at": "",
        "commitment_cost": "3.000000000",
        "top_up_cost": "0.000000007",
        "showback_cost": "0.000000003",
        "priced_after_the_fact": "false",
    }


def test_a_row_of_a_pool_of_cores_says_so() -> None:
    """The column of hours counts core-hours."""
    row = named(a_report("org/team", "cpu", device=DeviceKind.CPU))
    assert (row["pool"], row["gpu_hours"], row["device"]) == ("cpu", "1.000000", "cpu")


@pytest.mark.parametrize(
    ("by", "keys", "is_late"),
    [
        ("team,pool", ("org/team", "h100"), "true"),
        ("team,pool", ("org/team", "a100"), "false"),
        ("team,pool", ("other/team", "h100"), "false"),
        ("organization,usage_class", ("org (part)", "borrowed"), "true"),
        ("organization,usage_class", ("org", "unpaid"), "true"),
        ("organization,usage_class", ("org", "guaranteed"), "false"),
        ("organization,usage_class", ("org", "fault"), "false"),
        ("department", ("",), "true"),
    ],
)
def test_a_row_says_whether_a_price_came_after_the_fact(
    by: str, keys: tuple[str, ...], is_late: str
) -> None:
    """Unpaid use may have a price of borrowed use.

    Planted: unpaid use is left out; the price of another pool or organization counts.
    """
    card = RateCard(currency="EUR", organization=Node(path="org/", slug="org"))
    line = RateLine(card=card, pool=Pool(name="h100"), usage_class="borrowed")
    report = a_report(*keys, by=tuple(Dimension(each) for each in by.split(",")))
    assert named(replace(report, corrections=(line,)))["priced_after_the_fact"] == is_late


def test_without_a_rate_card_there_is_no_currency() -> None:
    row = named(a_report("org/team", "h100", currency=None))
    assert (row["cost"], row["currency"]) == ("0.000000000", "")


@pytest.mark.parametrize(
    ("mgpu_s", "text"),
    [
        (0, "0.000000"),
        (1, "0.000000"),
        (2, "0.000001"),
        (3_600_000, "1.000000"),
        (10**18, "277777777777.777778"),
    ],
)
def test_gpu_hours_have_six_decimals_and_no_exponent(mgpu_s: int, text: str) -> None:
    assert gpu_hours_text(mgpu_s) == text


def test_costs_are_exact() -> None:
    assert cost_text(0) == "0.000000000"
    assert cost_text(1) == "0.000000001"
    assert cost_text(10**30 + 5) == "1000000000000000000000.000000005"
