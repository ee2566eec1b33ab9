"""The CSV: safe in a spreadsheet, exact to the last digit."""

from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO

import pytest

from billing.amounts import Amounts
from billing.chargeback import Report, Row
from billing.csv_export import COLUMNS, cost_text, csv_lines, gpu_hours_text
from billing.models import RateCard, RateLine
from billing.periods import Period
from builders.billing_builders import LATER, at
from clusters.models import Pool
from primitives.units import DeviceKind
from tenants.models import Node
from webapi.csv_text import plain_text


def a_report(
    path: str,
    pool: str = "h100",
    amounts: Amounts | None = None,
    device: DeviceKind = DeviceKind.GPU,
) -> Report:
    amounts = amounts or Amounts(guaranteed_mgpu_s=3_600_000, jobs=1, guaranteed_jobs=1)
    row = Row(Node(path=f"{path}/"), pool, device, amounts, "EUR")
    return Report(
        totals=amounts,
        totals_by_device={device: amounts},
        segments_mgpu_s=amounts.mgpu_s,
        period=Period(at(0), at(3_600), LATER),
        rows=(row,),
        team_rows=(row,),
        by_currency=(),
        days=(),
        capacity=(),
        withheld=(),
        corrections=(),
        priced_at=None,
    )


def cells(report: Report) -> list[list[str]]:
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
    (_, row) = cells(a_report(f"org/{text.replace('/', '')}/team", pool=text))
    assert row[3][0] == "'"
    assert row[5] == f"'{text}"


@pytest.mark.parametrize("text", ["", "nlp", "a-b", "h100.80g", "1", "ünïcode", "a=b", "x|y"])
def test_a_harmless_name_stays_as_it_is(text: str) -> None:
    assert plain_text(text) == text


def test_commas_quotes_and_line_breaks_stay_inside_their_cell() -> None:
    (header, row) = cells(a_report('org/a,"b"\nc/team'))
    assert tuple(header) == COLUMNS
    assert row[2:5] == ["org", 'a,"b"\nc', "team"]


def test_a_line_for_each_class_that_was_used() -> None:
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
        borrowed_jobs=1,
        unpaid_jobs=1,
        fault_jobs=2,
    )
    (_, guaranteed, borrowed, unpaid, fault) = cells(
        a_report("org/department/sub/team", amounts=amounts)
    )
    start, end = "2026-11-01T00:00:00+00:00", "2026-11-01T01:00:00+00:00"
    where = ["org", "department/sub", "team", "h100"]
    assert guaranteed == [
        start, end, *where, "guaranteed", "0.001000", "3600", "0.000000001", "EUR", "2", "0",
        LATER.isoformat(), "gpu", "", "false", "3600", "0.000000000",
    ]  # fmt: skip
    assert unpaid[6:12] == ["unpaid", "0.000010", "36", "0.000000005", "EUR", "1"]
    assert fault[6:13] == ["fault", "0.000020", "72", "0.000000000", "EUR", "2", "0"]
    assert borrowed == [
        start, end, *where, "borrowed", "0.002000", "7200", "2.000000000", "EUR", "1", "7200",
        LATER.isoformat(), "gpu", "", "false", "7200", "0.000000000",
    ]  # fmt: skip


def test_charges_beside_use_have_lines_without_use() -> None:
    """Commitment and top-ups follow the classes; showback is in no cost."""
    amounts = Amounts(
        commitment_mgpu_s=3_600_000,
        commitment_cost_nano=2_000_000_000,
        top_up_mgpu_s=1_000,
        top_up_cost_nano=7,
        showback_top_up_nano=3,
    )
    (_, commitment, top_up) = cells(a_report("org/team", amounts=amounts))
    assert commitment[6:10] == ["commitment", "0.000000", "0", "2.000000000"]
    assert commitment[16:] == ["false", "3600000", "0.000000000"]
    assert top_up[6:10] == ["top_up", "0.000000", "0", "0.000000007"]
    assert top_up[16:] == ["false", "1000", "0.000000003"]


def test_a_row_of_a_pool_of_cores_says_so() -> None:
    """Behind the first columns, so that readers by position go on. gpu_hours are core-hours."""
    assert COLUMNS[13:] == ("as_of", "device", "priced_at", "priced_after_the_fact", *COLUMNS[17:])
    (_, row) = cells(a_report("org/team", pool="cpu", device=DeviceKind.CPU))
    assert (row[5], row[7], row[14]) == ("cpu", "1.000000", "cpu")


def test_a_price_of_borrowed_use_that_came_later_concerns_unpaid_use_too() -> None:
    """Planted: unpaid use is left out; the price of another pool counts."""
    amounts = Amounts(borrowed_mgpu_s=1, unpaid_mgpu_s=1, fault_mgpu_s=1)
    for pool, expected in (("h100", ["true", "true", "false"]), ("a100", ["false"] * 3)):
        line = RateLine(card=RateCard(), pool=Pool(name=pool), usage_class="borrowed")
        (_, *rows) = cells(replace(a_report("org/team", amounts=amounts), corrections=(line,)))
        assert [row[16] for row in rows] == expected


def test_a_team_of_the_organization_itself_has_no_department() -> None:
    (_, row) = cells(a_report("org/team"))
    assert row[2:5] == ["org", "", "team"]


def test_without_a_rate_card_there_is_no_currency() -> None:
    report = a_report("org/team")
    rows = tuple(replace(row, currency=None) for row in report.team_rows)
    (_, row) = cells(replace(report, team_rows=rows))
    assert row[9:11] == ["0.000000000", ""]


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
