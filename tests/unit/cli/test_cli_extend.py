"""`tidegate extend`, against a server that is a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import JOB_ID, Server, a_server, a_shown_job


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def a_plan(**changes: Any) -> dict[str, Any]:
    return {
        "job": JOB_ID,
        "before_s": 3_600,
        "time_limit_s": 10_800,
        "ends_before": "2026-11-21T13:00:00Z",
        "ends_at": "2026-11-21T15:00:00Z",
        "notice_at": "2026-11-21T14:55:00Z",
        "mgpu": 8_000,
        "cost_nano": 76_000_000_000,
        "unbilled_nano": 0,
        "price_mode": "pay_per_use",
        "currency": "EUR",
        "budgets": [],
        "delays": [],
        "delayed_jobs": 0,
        "until": "2026-11-22T15:00:00Z",
        "is_cut": False,
        "notes": [],
        "unseen": "",
        "refusal": "",
        **changes,
    }


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["+2h"], {"by_s": 7_200}),
        (["3h"], {"time_limit_s": 10_800}),
        (["--to", "3:00:00"], {"time_limit_s": 10_800}),
    ],
)
def test_the_plan_comes_first(server: Server, words: list[str], body: dict[str, int]) -> None:
    """Planted: a length with + taken for the whole limit."""
    server.routes[f"POST jobs/{JOB_ID}/extension-plan"] = a_plan()
    server.routes[f"POST jobs/{JOB_ID}/extend"] = a_shown_job(time_limit_s=10_800)
    ran = server.run("extend", JOB_ID, *words)
    assert ran.exit_code == 0, ran.err
    assert (server.body(0), server.body(1)) == (body, {"time_limit_s": 10_800})
    assert ran.out == (
        "time limit     3h (was 1h)\n"
        "ends           2026-11-21T15:00:00Z (was 2026-11-21T13:00:00Z)\n"
        "notice         2026-11-21T14:55:00Z\n"
        "costs at most  76.00 EUR\n"
        "delayed jobs   0\n"
        "\n"
        f"{JOB_ID}  time limit 3h\n"
    )


def test_a_plan_alone_changes_nothing(server: Server) -> None:
    server.routes[f"POST jobs/{JOB_ID}/extension-plan"] = a_plan()
    assert server.run("extend", JOB_ID, "+2h", "--plan").exit_code == 0
    assert server.sent == [f"POST jobs/{JOB_ID}/extension-plan"]


def test_an_extension_in_showback_is_not_billed(server: Server) -> None:
    """Against: a longer run that costs 0."""
    shown = {"cost_nano": 0, "unbilled_nano": 76_000_000_000, "price_mode": "showback"}
    server.routes[f"POST jobs/{JOB_ID}/extension-plan"] = a_plan(**shown)
    out = server.run("extend", JOB_ID, "+2h", "--plan").out
    assert "costs at most  showback: not billed (would cost 76.00 EUR)\n" in out


def test_the_plan_has_budgets_and_notes(server: Server) -> None:
    """Against: notes left out."""
    budget = {
        "name": "NLP 2026",
        "measure": "gpu_hours",
        "currency": None,
        "limit": 500 * 3_600_000,
        "left_after": 120 * 3_600_000,
    }
    note = "Budget Research of ai/research has too little left and would be exceeded."
    planned = a_plan(budgets=[budget], notes=[note])
    server.routes[f"POST jobs/{JOB_ID}/extension-plan"] = planned
    out = server.run("extend", JOB_ID, "+2h", "--plan").out
    assert "budget NLP 2026  120.0 of 500.0 GPU-hours left after it\n" in out
    assert out.endswith(f"\n\n{note}\n")


def test_an_extension_that_delays_others_is_refused(server: Server) -> None:
    """Planted: the refusal printed, and the job extended all the same."""
    delay = {
        "job": JOB_ID,
        "name": "next",
        "team": "ai/nlp",
        "user": "bob",
        "before": "2026-11-21T13:00:00Z",
        "after": None,
        "later_s": 7_200,
        "is_at_least": True,
    }
    server.routes[f"POST jobs/{JOB_ID}/extension-plan"] = a_plan(
        delays=[delay], delayed_jobs=2, refusal="It would delay 1 waiting job."
    )
    ran = server.run("extend", JOB_ID, "+2h")
    assert (ran.exit_code, ran.err) == (2, "Error: The job is not extended.\n")
    assert "next         ai/nlp  bob   2026-11-21T13:00:00Z  after 2026-11-22T15:00:00Z" in ran.out
    assert ran.out.endswith("\nIt would delay 1 waiting job.\n")
    assert server.sent == [f"POST jobs/{JOB_ID}/extension-plan"]


def test_a_plan_says_what_its_look_ahead_did_not_see(server: Server) -> None:
    """Planted: only the refusal printed, so whoever may extend it read nothing of it."""
    unseen = "The look-ahead covers 31 d, and the new end is later."
    server.routes[f"POST jobs/{JOB_ID}/extension-plan"] = a_plan(unseen=unseen)
    ran = server.run("extend", JOB_ID, "+2h", "--plan")
    assert (ran.exit_code, ran.err) == (0, "")
    assert ran.out.endswith(f"delayed jobs   0\n\n{unseen}\n")


@pytest.mark.parametrize("words", [[], ["+2h", "--to", "3h"]])
def test_one_length_is_given(server: Server, words: list[str]) -> None:
    ran = server.run("extend", JOB_ID, *words)
    assert ran.exit_code == 2
    assert "How long? Give +2h for two hours more, or --to 8h for the whole limit." in ran.err
