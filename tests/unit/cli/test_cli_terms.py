"""`tidegate prices terms`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server

CARD = "0197a000-0000-7000-8000-000000000001"
TERMS = "0197a000-0000-7000-8000-00000000000"


def terms(number: int, mode: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"{TERMS}{number}",
        "pool": "h100",
        "device": "gpu",
        "mode": mode,
        "guaranteed_ppm": 1_000_000,
        "borrowed_ppm": 1_000_000,
        "unpaid_ppm": 300_000,
        "minimum_s": 300,
        "increment_s": 60,
        "start": "2026-01-31T23:00:00Z",
        "end": None,
        "added_at": "2026-01-10T12:00:00Z",
        "added_by": "fin@ai-company",
        "is_correction": False,
        **changes,
    }


CURRENT = terms(1, "pay_per_use", end="2098-11-30T23:00:00Z", is_correction=True)
SCHEDULED = terms(2, "commitment", start="2098-11-30T23:00:00Z", minimum_s=0, increment_s=1)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    card = {
        "id": CARD,
        "organization": "ai-company",
        "currency": "EUR",
        "time_zone": "Europe/Berlin",
        "lines": [],
        "terms": [CURRENT, SCHEDULED],
        "can_edit": True,
    }
    server.routes["GET rate-cards"] = {"items": [card], "next": None}
    return server


def test_terms_are_listed_with_the_prices(server: Server) -> None:
    """Days are those of the organization's zone."""
    rows = [" ".join(row.split()) for row in server.run("prices", "list").out.splitlines()]
    assert rows == [
        "POOL MODE GUARANTEED BORROWED UNPAID MINIMUM INCREMENT FROM UNTIL STATE",
        "h100 pay_per_use x 1 x 1 x 0.3 5m 1m 2026-02-01 2098-12-01 current, correction",
        "h100 commitment x 1 x 1 x 0.3 - 1s 2098-12-01 - scheduled",
    ]


def test_terms_that_are_not_given_stay_as_they_were(server: Server) -> None:
    """Against: defaults in the place of the terms that apply at the start."""
    server.routes[f"POST rate-cards/{CARD}/terms"] = terms(3, "showback")
    given = ("--guaranteed", "1.25", "--increment", "2m", "--from", "2098-07-01")
    ran = server.run("prices", "terms", "set", "h100", "showback", *given)
    assert ran.err == (
        "h100 bills nothing (showback), unpaid x 0.3, at least 5m an attempt, in steps of 1m, "
        "from 2026-02-01.\n"
    )
    assert server.body() == {
        "pool": "h100",
        "mode": "showback",
        "guaranteed_ppm": 1_250_000,
        "borrowed_ppm": 1_000_000,
        "unpaid_ppm": 300_000,
        "minimum_s": 300,
        "increment_s": 120,
        "start": "2098-06-30T22:00:00Z",
        "end": None,
        "ends_current": True,
    }


def test_the_first_terms_of_a_pool_have_the_defaults(server: Server) -> None:
    server.routes[f"POST rate-cards/{CARD}/terms"] = terms(3, "commitment", is_correction=True)
    ran = server.run("prices", "terms", "set", "a100", "commitment")
    assert "They start in the past, so they are a correction." in ran.err
    body = server.body()
    assert (body["unpaid_ppm"], body["minimum_s"], body["increment_s"]) == (1_000_000, 0, 1)
    wrong = server.run("prices", "terms", "set", "a100", "commitment", "--unpaid", "30%")
    assert "--unpaid 30%: write a factor of the price, such as 1.5." in wrong.err


def test_terms_end_and_scheduled_ones_are_cancelled(server: Server) -> None:
    """Against: the scheduled terms ended where the current ones are meant."""
    server.routes[f"PATCH rate-cards/{CARD}/terms/{TERMS}1"] = CURRENT
    server.run("prices", "terms", "end", "h100", "--at", "2098-01-01")
    assert server.body() == {"end": "2097-12-31T23:00:00Z"}
    server.routes[f"DELETE rate-cards/{CARD}/terms/{TERMS}2"] = httpx.Response(204)
    ran = server.run("prices", "terms", "end", "h100", "--cancel", "2098-12-01")
    assert ran.err == (
        "Cancelled: h100 bills the guarantee, used or not, unpaid x 0.3, from 2098-12-01.\n"
    )
    missing = server.run("prices", "terms", "end", "h100", "--cancel", "2098-12-02")
    assert missing.err == "Error: No terms of h100 start then. See `tidegate prices list`.\n"
    none = server.run("prices", "terms", "end", "a100")
    assert none.err == "Error: a100 has no current terms. See `tidegate prices list`.\n"
    both = server.run("prices", "terms", "end", "h100", "--at", "x", "--cancel", "y")
    assert both.err == "Error: Give --at or --cancel, not both.\n"
