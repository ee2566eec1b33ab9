"""`tidegate credits`: statements, transfers, approvals and rejections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server

ID = "0197a000-0000-7000-8000-0000abcd0003"
GPU_HOUR = 3_600_000_000


def a_transfer(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "pool": "h100",
        "sender": "ai-company/research/nlp",
        "recipient": "ai-company/production/inference",
        "amount_ugpu_s": 500 * GPU_HOUR,
        "reason": "for the CVPR deadline",
        "status": "pending",
        "asked_by": "dora@ai-company",
        "asked_at": "2026-11-20T09:00:00Z",
        "expires_at": "2026-11-27T09:00:00Z",
        "decided_by": None,
        "decided_at": None,
        "note": "",
        "may_approve": False,
        "may_withdraw": True,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET credits/transfers"] = {"items": [a_transfer()], "next": None}
    server.routes["POST credits/transfers"] = a_transfer(amount_ugpu_s=45 * GPU_HOUR // 2)
    return server


def test_a_transfer_is_sent_in_the_unit_of_the_api(server: Server) -> None:
    """Against: an amount by way of a float; no key, so that a repeat transfers twice."""
    ran = server.run(
        *("credits", "transfer", "nlp", "inference", "22.5"),
        *("--pool", "h100", "--reason", "for the CVPR deadline"),
    )
    assert ran.out.splitlines() == [
        f"transfer  {ID}",
        "from      ai-company/research/nlp",
        "to        ai-company/production/inference",
        "amount    22.5 GPU-hours in h100",
        "status    pending",
        "expires   2026-11-27T09:00:00Z",
    ]
    sent = server.requests[-1]
    assert json.loads(sent.content) == {
        "sender": "nlp",
        "recipient": "inference",
        "pool": "h100",
        "amount_ugpu_s": 81_000_000_000,
        "reason": "for the CVPR deadline",
    }
    assert len(sent.headers["idempotency-key"]) == 36


@pytest.mark.parametrize("amount", ["-1", "1e9", "1.2345", "many", ""])
def test_an_amount_is_gpu_hours(server: Server, amount: str) -> None:
    ran = server.run("credits", "transfer", "a", "b", "--reason", "x", "--", amount)
    assert (ran.exit_code, server.requests) == (2, [])
    assert "Give GPU-hours such as 500 or 12.5" in ran.err


def test_without_transfers_there_is_no_table(server: Server) -> None:
    """Against: a header alone."""
    server.routes["GET credits/transfers"] = {"items": [], "next": None}
    ran = server.run("credits", "transfers")
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "No transfers.\n")


def test_transfers_are_listed_and_decided_by_the_end_of_their_id(server: Server) -> None:
    assert server.run("credits", "transfers", "--pending").out.splitlines() == [
        "ID        POOL  FROM                     TO                               AMOUNT"
        "  STATUS   BY               REASON",
        "abcd0003  h100  ai-company/research/nlp  ai-company/production/inference   500.0"
        "  pending  dora@ai-company  for the CVPR deadline",
    ]
    assert server.requests[-1].url.params["status"] == "pending"
    server.routes[f"POST credits/transfers/{ID}/approve"] = a_transfer(
        status="approved", decided_by="pam@ai-company", note="welcome"
    )
    ran = server.run("credits", "approve", "abcd0003", "--note", "welcome")
    assert ran.out.splitlines()[4:] == [
        "status      approved",
        "decided by  pam@ai-company",
        "note        welcome",
    ]
    server.routes[f"POST credits/transfers/{ID}/reject"] = a_transfer(status="withdrawn")
    assert "withdrawn" in server.run("credits", "reject", ID).out
    assert json.loads(server.requests[-1].content) == {"note": ""}


def test_an_unknown_end_of_an_id_is_refused(server: Server) -> None:
    ran = server.run("credits", "approve", "ffff")
    assert ran.exit_code == 2
    assert "No pending transfer ends with 'ffff'" in ran.err


def a_statement(*lines: dict[str, Any]) -> dict[str, Any]:
    return {
        "opening_ugpu_s": 10 * GPU_HOUR,
        "closing_ugpu_s": 14 * GPU_HOUR,
        "lines": list(lines),
        "borrowing": [],
        "notices": [],
        "expiring": [],
    }


def a_line(kind: str, hours: int, balance_hours: int, reason: str = "") -> dict[str, Any]:
    return {
        "day": "2026-11-20",
        "kind": kind,
        "other": "ai-company/research/nlp",
        "amount_ugpu_s": hours * GPU_HOUR,
        "balance_ugpu_s": balance_hours * GPU_HOUR,
        "reason": reason,
        "expires_on": None,
    }


def test_a_statement_says_why_it_was_corrected(server: Server) -> None:
    """The reason of a correction and of a refund is in a last column. Planted: no column."""
    lost = "bert: its node failed"
    why = "Use from 2026-11-19 08:00 to 08:15 UTC changed (bert: late news)."
    server.routes["GET credits/statement"] = a_statement(
        a_line("lent", 1, 11),
        a_line("correction", 1, 12, why),
        a_line("refund", 2, 14, lost),
    )
    ran = server.run("credits", "statement", "inference", "--pool", "h100")
    assert ran.out.splitlines() == [
        "DAY         ENTRY                                          AMOUNT  BALANCE  REASON",
        "            opening balance                                           10.0",
        "2026-11-20  lent to ai-company/research/nlp                   1.0     11.0",
        f"2026-11-20  correction, back from ai-company/research/nlp     1.0     12.0  {why}",
        f"2026-11-20  refund from ai-company/research/nlp               2.0     14.0  {lost}",
        "            closing balance                                           14.0",
    ]


def test_a_statement_without_reasons_has_no_column_for_them(server: Server) -> None:
    """A month without reasons has no empty column. Planted: the column always."""
    server.routes["GET credits/statement"] = a_statement(a_line("lent", 4, 14))
    ran = server.run("credits", "statement", "inference", "--pool", "h100")
    assert ran.out.splitlines() == [
        "DAY         ENTRY                            AMOUNT  BALANCE",
        "            opening balance                             10.0",
        "2026-11-20  lent to ai-company/research/nlp     4.0     14.0",
        "            closing balance                             14.0",
    ]


def test_a_statement_has_the_expiry_of_lines_and_the_largest_jobs(server: Server) -> None:
    """Planted: the jobs in the order of days, so that a small one hides the largest."""
    earned = {**a_line("lent", 4, 14), "expires_on": "2027-02-19"}
    jobs = [
        {
            "job": ID,
            "job_name": f"train-{hours}",
            "attempt": 1,
            "day": "2026-11-20",
            "amount_ugpu_s": hours * GPU_HOUR,
            "attempts": 6,
        }
        for hours in (1, 2, 9, 3, 4, 5)
    ]
    server.routes["GET credits/statement"] = {**a_statement(earned), "borrowing": jobs}
    ran = server.run("credits", "statement", "inference", "--pool", "h100")
    assert ran.out.splitlines()[2].endswith("4.0     14.0  2027-02-19")
    assert ran.err.splitlines()[0] == (
        f"train-9, attempt 1, borrowed 9.0 GPU-hours on 2026-11-20 (job {ID})."
    )
    assert [line.split(",")[0] for line in ran.err.splitlines()] == [
        *("train-9", "train-5", "train-4", "train-3", "train-2"),
    ]


def test_a_statement_is_printed_as_csv(server: Server) -> None:
    server.routes["GET credits/statement"] = httpx.Response(200, text="team,pool\r\nnlp,h100\r\n")
    ran = server.run("credits", "statement", "nlp", "--pool", "h100", "--csv")
    assert "nlp,h100" in ran.out
    assert server.requests[-1].url.params["format"] == "csv"


def test_a_history_ends_with_what_is_available_and_the_forecast(server: Server) -> None:
    """Planted: pending transfers count as available."""
    server.routes["GET credits/history"] = {
        "opening_ugpu_s": 10 * GPU_HOUR,
        "balance_ugpu_s": 14 * GPU_HOUR,
        "floor_ugpu_s": -70 * GPU_HOUR,
        "cap_ugpu_s": 140 * GPU_HOUR,
        "held_ugpu_s": 2 * GPU_HOUR,
        "pending_ugpu_s": GPU_HOUR,
        "days": [{"day": "2026-11-01", "balance_ugpu_s": 14 * GPU_HOUR}],
        "forecast": {
            "last_day": "2026-11-30",
            **{
                f"{name}_ugpu_s": hours * GPU_HOUR
                for name, hours in (("low", 15), ("middle", 20), ("high", 25))
            },
        },
    }
    ran = server.run("credits", "history", "nlp", "--pool", "h100")
    assert ran.out.splitlines() == [
        "DAY         BALANCE",
        "               10.0",
        "2026-11-01     14.0",
    ]
    assert ran.err.splitlines() == [
        "Floor -70.0, cap 140.0 GPU-hours.",
        "On hold: 3.0 GPU-hours. Available: 11.0 GPU-hours.",
        "Forecast for 2026-11-30: 20.0 GPU-hours (15.0 to 25.0).",
    ]


@pytest.mark.parametrize(
    ("until", "said"),
    [
        (None, "Nothing is settled yet."),
        ("2020-01-01T00:15:00Z", "Settled until 2020-01-01T00:15:00Z."),
        (
            "2999-01-01T00:15:00Z",
            "Use is settled from 2999-01-01T00:15:00Z on. Nothing is settled yet.",
        ),
    ],
)
def test_a_new_bank_says_when_it_begins(server: Server, until: str | None, said: str) -> None:
    """Planted: "Settled until" a time to come."""
    server.routes["GET organizations"] = {"items": [{"slug": "ai-company"}], "next": None}
    server.routes["GET credits"] = {
        "is_on": True,
        "settled_until": until,
        "common_ugpu_s": 0,
        "teams": [],
    }
    ran = server.run("credits", "list", "--pool", "h100")
    assert said in (ran.out + ran.err).splitlines()
