"""`tidegate adjustments` and `tidegate disputes`: what is sent, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import JOB_ID, Server, a_server

ID = "0197a000-0000-7000-8000-0000abcd0007"
NANO = 1_000_000_000
ADJUSTMENT: dict[str, Any] = {
    "id": ID,
    "team": "ai-company/research/nlp",
    "month": "2026-11",
    "amount_nano": -2_000 * NANO,
    "currency": "EUR",
    "status": "pending",
    "asked_by": "fay@ai-company",
    "expires_at": "2026-11-28T12:00:00Z",
    "reason": "storage",
}
DISPUTE: dict[str, Any] = {
    "id": ID,
    "team": "ai-company/research/nlp",
    "subject": "bert, attempt 2",
    "charged_nano": 48 * NANO,
    "refund_nano": None,
    "currency": "EUR",
    "status": "open",
    "reason": "broken",
    "note": "",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET adjustments"] = {"items": [ADJUSTMENT], "next": None}
    server.routes["POST adjustments"] = ADJUSTMENT
    server.routes["GET disputes"] = {"items": [DISPUTE], "next": None}
    server.routes["POST disputes"] = DISPUTE
    return server


def sent(server: Server) -> Any:
    return json.loads(server.requests[-1].content)


def test_a_credit_is_sent_as_a_negative_amount(server: Server) -> None:
    """Planted: --credit charges the team."""
    ran = server.run(
        *("adjustments", "add", "nlp", "2000", "--credit"),
        *("--reason", "storage", "--month", "2026-11"),
    )
    assert ran.out.splitlines() == [
        f"adjustment  {ID}",
        "team        ai-company/research/nlp",
        "month       2026-11",
        "amount      -2,000.00 EUR",
        "status      pending",
    ]
    assert "until 2026-11-28T12:00:00Z" in ran.err
    assert (sent(server)["amount_nano"], sent(server)["month"]) == (-2_000 * NANO, "2026-11")
    server.run("adjustments", "add", "nlp", "0.5", "--reason", "storage")
    assert sent(server)["amount_nano"] == NANO // 2


def test_amounts_reach_a_billion_with_two_decimals(server: Server) -> None:
    """The refusal says the bound. Against: the bound of prices, a million."""
    server.run("adjustments", "add", "nlp", "1000000000", "--reason", "merger")
    assert sent(server)["amount_nano"] == 10**18
    count = len(server.requests)
    for wrong, sentence in (
        ("1000000000.01", "at most 1,000,000,000 of the currency"),
        ("12.505", "at most two decimals"),
        ("1,000", "is not an amount"),
        ("-5", "Give an amount above 0. To credit the team, add --credit."),
    ):
        assert sentence in server.run("adjustments", "add", "nlp", wrong, "--reason", "x").err
    assert len(server.requests) == count


def test_the_threshold_shows_what_applies_to_the_reader(server: Server) -> None:
    """Against: the threshold of others."""
    server.routes["GET organizations"] = {"items": [{"id": ID, "slug": "acme"}], "next": None}
    server.routes[f"GET organizations/{ID}/adjustment-policy"] = {
        "organization": "acme",
        "threshold_nano": 2_000 * NANO,
        "your_threshold_nano": 1_000 * NANO,
        "changed_by": "fay@acme",
        "changed_at": "2026-11-20T12:00:00Z",
        "version": 2,
    }
    assert server.run("adjustments", "threshold").out.splitlines() == [
        "organization  acme",
        "threshold     2,000.00",
        "for you       1,000.00",
        "changed by    fay@acme",
        "changed at    2026-11-20T12:00:00Z",
    ]


def test_adjustments_are_listed_and_decided_by_the_end_of_their_id(server: Server) -> None:
    ran = server.run("adjustments", "list", "--pending")
    assert ran.out.splitlines()[1].split() == [
        *("abcd0007", "2026-11", "ai-company/research/nlp", "-2,000.00", "EUR", "pending"),
        *("fay@ai-company", "storage"),
    ]
    assert server.requests[-1].url.params["status"] == "pending"
    server.routes[f"POST adjustments/{ID}/approve"] = {**ADJUSTMENT, "status": "approved"}
    server.routes[f"POST adjustments/{ID}/reject"] = {**ADJUSTMENT, "status": "rejected"}
    assert "approved" in server.run("adjustments", "approve", "abcd0007").out
    assert "rejected" in server.run("adjustments", "reject", ID, "--note", "no").out
    assert sent(server) == {"note": "no"}
    assert "No" in server.run("adjustments", "approve", "").err


def test_a_dispute_is_about_the_last_attempt_unless_it_is_named(server: Server) -> None:
    """Planted: the first attempt; a parameter that the endpoint refuses."""
    attempts = [{"id": f"a{number}", "number": number} for number in (1, 2)]
    server.routes[f"GET jobs/{JOB_ID}/attempts"] = {"items": attempts, "next": None}
    ran = server.run("disputes", "open", JOB_ID, "--reason", "broken")
    assert ran.out.splitlines() == [
        f"dispute  {ID}",
        "charge   bert, attempt 2",
        "charged  48.00 EUR",
        "status   open",
    ]
    assert sent(server) == {"attempt": "a2", "reason": "broken"}
    server.run("disputes", "open", JOB_ID, "--attempt", "1", "--reason", "broken")
    assert sent(server)["attempt"] == "a1"
    assert server.run("disputes", "open", JOB_ID, "--attempt", "3", "--reason", "x").exit_code == 2


def test_a_row_is_disputed_by_team_pool_and_month(server: Server) -> None:
    """Nothing is sent for half a row, or for a row and a job. Against: the row of no month."""
    row = ("--team", "nlp", "--pool", "h100", "--month", "2026-10")
    server.run("disputes", "open", *row, "--reason", "broken")
    body = {"team": "nlp", "pool": "h100", "month": "2026-10", "reason": "broken"}
    assert sent(server) == body
    count = len(server.requests)
    for wrong in (row[:4], (*row, "--attempt", "1"), (JOB_ID, *row), ()):
        ran = server.run("disputes", "open", *wrong, "--reason", "broken")
        assert "--team, --pool and --month" in ran.err
    assert len(server.requests) == count


def test_disputes_are_listed_accepted_and_declined(server: Server) -> None:
    assert "48.00" in server.run("disputes", "list", "--open").out
    server.routes[f"POST disputes/{ID}/accept"] = {
        **DISPUTE,
        "status": "accepted",
        "refund_nano": 12 * NANO,
    }
    assert "refund   12.00 EUR" in server.run("disputes", "accept", ID, "--refund", "12").out
    assert sent(server) == {"refund_nano": 12 * NANO, "note": ""}
    server.routes[f"POST disputes/{ID}/decline"] = {
        **DISPUTE,
        "status": "declined",
        "note": "it was fine",
    }
    assert "it was fine" in server.run("disputes", "decline", "0007", "--note", "it was fine").out


@pytest.mark.parametrize("kind", ["adjustments", "disputes"])
def test_an_empty_list_is_a_sentence(server: Server, kind: str) -> None:
    """Against: a header alone."""
    server.routes[f"GET {kind}"] = {"items": [], "next": None}
    ran = server.run(kind, "list")
    assert (ran.exit_code, ran.out, ran.err) == (0, "", f"No {kind}.\n")
