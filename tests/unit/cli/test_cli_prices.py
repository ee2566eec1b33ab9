"""`tidegate prices`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server

CARD = "0197a000-0000-7000-8000-000000000001"
LINE = "0197a000-0000-7000-8000-00000000000"
EURO = 1_000_000_000
PAY_PER_USE = {"mode": "pay_per_use", "multiplier_ppm": 1_000_000}
NO_PRICE = {"mode": "pay_per_use", "price_nano": None, "multiplier_ppm": None, "cost_nano": 0}


def a_line(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"{LINE}{number}",
        "pool": "h100",
        "device": "gpu",
        "usage_class": "guaranteed",
        "price_nano": 2_000_000_000,
        "start": "2026-01-31T23:00:00Z",
        "end": None,
        "added_at": "2026-01-10T12:00:00Z",
        "added_by": "fin@ai-company",
        "is_correction": False,
        **changes,
    }


PAST = a_line(1, start="2025-01-01T10:00:00Z", end="2026-01-31T23:00:00Z", price_nano=5)
CURRENT = a_line(2, end="2098-11-30T23:00:00Z", is_correction=True)
SCHEDULED = a_line(3, start="2098-11-30T23:00:00Z", price_nano=2_100_000_000)


def a_card(**changes: Any) -> dict[str, Any]:
    return {
        "id": CARD,
        "organization": "ai-company",
        "currency": "EUR",
        "time_zone": "Europe/Berlin",
        "lines": [PAST, CURRENT, SCHEDULED],
        "terms": [],
        "can_edit": True,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET rate-cards"] = {"items": [a_card()], "next": None}
    return server


def test_prices_are_listed_with_days_of_the_organizations_zone(server: Server) -> None:
    """Planted: past prices listed without --all; days of UTC."""
    assert server.run("prices", "list").out.splitlines() == [
        "POOL  CLASS       PRICE EUR  FROM        UNTIL       STATE",
        "h100  guaranteed       2.00  2026-02-01  2098-12-01  current, correction",
        "h100  guaranteed       2.10  2098-12-01  -           scheduled",
    ]
    assert server.run("prices", "list", "--all").out.splitlines()[1] == (
        "h100  guaranteed  0.000000005  2025-01-01T10:00:00Z  2026-02-01  past"
    )


def test_a_price_is_exact_and_starts_at_midnight_of_the_organizations_zone(
    server: Server,
) -> None:
    """Planted: the price read as a float; midnight in UTC."""
    server.routes[f"POST rate-cards/{CARD}/lines"] = a_line(4, start="2098-06-30T22:00:00Z")
    ran = server.run("prices", "set", "h100", "guaranteed", "0.0157", "--from", "2098-07-01")
    assert (ran.exit_code, ran.err) == (0, "guaranteed h100 costs 2.00 EUR from 2098-07-01.\n")
    assert server.body() == {
        "pool": "h100",
        "usage_class": "guaranteed",
        "price_nano": 15_700_000,
        "start": "2098-06-30T22:00:00Z",
        "end": None,
        "ends_current": True,
    }


@pytest.mark.parametrize("price", ["2,10", "-1", "1e3", "1.0123456789", "", "٢", "1000000000"])
def test_a_price_that_is_none_is_refused_before_anything_is_sent(
    server: Server, price: str
) -> None:
    ran = server.run("prices", "set", "h100", "guaranteed", "--", price)
    assert ran.exit_code == 2
    assert "is not a price. Write digits with a point" in ran.err
    assert {request.method for request in server.requests} <= {"GET"}


def test_the_first_price_may_bring_the_rate_card(server: Server) -> None:
    server.routes["GET organizations"] = {"items": [{"slug": "ai-company"}], "next": None}
    server.routes["POST rate-cards"] = a_card(lines=[])
    server.routes[f"POST rate-cards/{CARD}/lines"] = a_line(4, is_correction=True)
    ran = server.run("prices", "set", "h100", "borrowed", "1", "--currency", "EUR")
    assert "It starts in the past, so reports name it as a correction." in ran.err
    assert server.sent == [
        "GET organizations?limit=500",
        "POST rate-cards",
        "GET rate-cards?limit=500",
        f"POST rate-cards/{CARD}/lines",
    ]


def test_a_price_ends_now_or_later_and_a_scheduled_one_is_cancelled(server: Server) -> None:
    """Planted: the scheduled price ended where the current one is meant."""
    server.routes[f"PATCH rate-cards/{CARD}/lines/{LINE}2"] = CURRENT
    ran = server.run("prices", "end", "h100", "guaranteed")
    assert (ran.exit_code, server.body()) == (0, {"end": None})
    server.run("prices", "end", "h100", "guaranteed", "--at", "2098-01-01")
    assert server.body() == {"end": "2097-12-31T23:00:00Z"}
    server.routes[f"DELETE rate-cards/{CARD}/lines/{LINE}3"] = httpx.Response(204)
    ran = server.run("prices", "end", "h100", "guaranteed", "--cancel", "2098-12-01")
    assert ran.err == "Cancelled: guaranteed h100 costs 2.10 EUR from 2098-12-01.\n"
    missing = server.run("prices", "end", "h100", "guaranteed", "--cancel", "2098-12-02")
    assert missing.err == (
        "Error: No price of guaranteed h100 starts then. See `tidegate prices list`.\n"
    )
    none = server.run("prices", "end", "h100", "borrowed")
    assert "borrowed h100 has no current price" in none.err
    both = server.run("prices", "end", "h100", "borrowed", "--at", "x", "--cancel", "y")
    assert both.err == "Error: Give --at or --cancel, not both.\n"


def test_two_moments_are_compared(server: Server) -> None:
    """Without moments: now, and the prices after all scheduled changes."""
    server.routes[f"GET rate-cards/{CARD}/comparison"] = {
        "organization": "ai-company",
        "currency": "EUR",
        "first": "2026-11-29T00:00:00Z",
        "second": SCHEDULED["start"],
        "start": "2026-09-30T22:00:00Z",
        "end": "2026-10-31T23:00:00Z",
        "is_whole": False,
        "charged_cost_nano": 200_000_000_000,
        "first_cost_nano": 200_000_000_000,
        "second_cost_nano": 190_000_000_000,
        "change_ppm": -50_000,
        "prices": [
            {
                "pool": "h100",
                "device": "gpu",
                "usage_class": "guaranteed",
                "change_ppm": -50_000,
                "mgpu_s": 360_000_000,
                "first": {**PAY_PER_USE, "price_nano": 2_000_000_000, "cost_nano": 200 * EURO},
                "second": {
                    "mode": "commitment",
                    "price_nano": 1_900_000_000,
                    "multiplier_ppm": 950_000,
                    "cost_nano": 190 * EURO,
                },
            },
            {
                "pool": "h100",
                "device": "gpu",
                "usage_class": "borrowed",
                "change_ppm": None,
                "mgpu_s": 0,
                "first": NO_PRICE,
                "second": NO_PRICE,
            },
        ],
        "first_showback_nano": 0,
        "second_showback_nano": 3 * EURO,
        "teams": [
            {
                "team": f"ai-company/team-{number:02d}",
                "first_cost_nano": 200 * EURO,
                "second_cost_nano": 190 * EURO,
                "first_showback_nano": 0,
                "second_showback_nano": 3 * EURO,
                "change_ppm": -50_000,
            }
            for number in range(51)
        ],
    }
    ran = server.run("prices", "compare")
    rows = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert rows[:6] == [
        "POOL CLASS FIRST SECOND CHANGE GPU-HOURS COST 1 COST 2",
        "h100 guaranteed 2.00 1.90 (x 0.95) commitment -5.0 % 100.000 200.00 190.00",
        "h100 borrowed - - - 0.000 0.00 0.00",
        "total -5.0 % 200.00 190.00",
        "TEAM COST 1 COST 2 CHANGE",
        "ai-company/team-00 200.00 190.00 -5.0 %",
    ]
    assert len(rows) == 5 + 50
    assert ran.err.splitlines() == [
        "1 more teams change less; -o json has all.",
        "EUR, usage from 2026-10-01 to 2026-11-01. It was charged 200.00.",
        "Showback, not billed: 0.00 and 3.00.",
        "Usage and costs are those of the teams whose costs you may see.",
    ]
    assert server.requests[-1].url.params["second"] == "2098-11-30T23:00:00Z"
    server.run("prices", "compare", "2026-01-01", "2026-02-01", "--start", "2026-01-01")
    assert dict(server.requests[-1].url.params) == {
        "first": "2025-12-31T23:00:00Z",
        "second": "2026-01-31T23:00:00Z",
        "start": "2025-12-31T23:00:00Z",
    }


def test_what_cannot_be_compared_or_found_is_refused(server: Server) -> None:
    server.routes["GET rate-cards"] = {"items": [a_card(lines=[CURRENT])], "next": None}
    ran = server.run("prices", "compare")
    assert ran.err == ("Error: No price and no terms are scheduled. Give two moments to compare.\n")
    day = server.run("prices", "compare", "2026-02-30", "2026-03-01")
    assert day.err == "Error: FIRST '2026-02-30' is not a day of the calendar.\n"
    server.routes["GET rate-cards"] = {"items": [a_card(lines=[])], "next": None}
    assert "has no prices yet" in server.run("prices", "list").err
    two = [a_card(), a_card(organization="other")]
    server.routes["GET rate-cards"] = {"items": two, "next": None}
    ran = server.run("prices", "list")
    assert ran.err == "Error: Choose an organization with --organization: ai-company, other.\n"
    server.routes["GET rate-cards"] = {"items": [], "next": None}
    assert "There is no rate card that you may see" in server.run("prices", "list").err
