"""`tidegate requests`: what is sent, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

ID = "0197a000-0000-7000-8000-0000abcd0007"
OFFER = {"number": 2, "title": "nlp +2 GPUs of h100", "made_by": "dora@a", "is_open": True}
REQUEST: dict[str, Any] = {
    "id": ID,
    "title": "nlp +4 GPUs of h100",
    "node": "a/research/nlp",
    "asked_by": "bob@a",
    "reason": "the review",
    "status": "pending",
    "amount": 4_000,
    "unit": "mgpu",
    "until": None,
    "decided_by": None,
    "note": "",
    "planned": None,
    "offers": [],
    "write": None,
    "supply": {
        "reserve_mgpu": 2_000,
        "sources": [
            {
                "node": "a/research/vision",
                "guaranteed_mgpu": 8_000,
                "in_use_mgpu": 1_000,
                "offered_mgpu": 4_000,
            }
        ],
    },
    "comments": [{"at": "2026-11-21T12:00:00Z", "author": "mira@a", "text": "4 are free"}],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET requests"] = {"items": [REQUEST], "next": None}
    server.routes["POST requests"] = REQUEST
    server.routes[f"GET requests/{ID}"] = REQUEST
    for act in ("approve", "counter", "reject", "withdraw", "comments", "offers/2/accept"):
        server.routes[f"POST requests/{ID}/{act}"] = REQUEST
    return server


def sent(server: Server) -> Any:
    return json.loads(server.requests[-1].content)


def test_a_request_is_listed_and_shown(server: Server) -> None:
    """With its sources and comments. Against: the use was printed as the guarantee."""
    assert server.run("requests", "list").out.splitlines()[1].split()[:3] == [
        "abcd0007",
        "nlp",
        "+4",
    ]
    lines = server.run("requests", "show", "abcd0007").out.splitlines()
    assert lines[:2] == [f"request   {ID}", "asks for  nlp +4 GPUs of h100"]
    assert lines[-2].split() == ["a/research/vision", "8", "1", "4"]
    assert lines[-1] == "2026-11-21T12:00:00Z  mira@a: 4 are free"


def test_each_kind_is_asked_for_with_its_members(server: Server) -> None:
    """Against: --until was not sent. One kind at a time."""
    server.run(
        *("requests", "new", "nlp", "--gpus", "4", "--pool", "h100"),
        *("--until", "2026-11-27T18:00:00Z", "--reason", "the review"),
    )
    assert sent(server) == {
        "kind": "guarantee",
        "node": "nlp",
        "pool": "h100",
        "amount": 4_000,
        "until": "2026-11-27T18:00:00Z",
        "reason": "the review",
    }
    role = ("requests", "new", "nlp", "--role", "team_lead", "--reason", "holidays")
    server.run(*role, "--until", "2026-11-27T18:00:00Z")
    assert (sent(server)["kind"], sent(server)["role"]) == ("role", "team_lead")
    assert sent(server)["until"] == "2026-11-27T18:00:00Z"
    server.run(
        *("requests", "new", "nlp", "--borrow-limit", "4", "--pool", "h100"),
        *("--begin", "2026-11-26T08:00:00Z", "--reason", "x"),
    )
    assert sent(server)["begin"] == "2026-11-26T08:00:00Z"
    server.routes["GET budgets"] = {
        "items": [{"id": ID, "name": "b", "measure": "gpu_hours"}],
        "next": None,
    }
    server.run("requests", "new", "--budget", "b", "--amount", "50", "--reason", "x")
    assert (sent(server)["target"], sent(server)["amount"]) == (ID, 50 * 3_600_000)
    ran = server.run("requests", "new", "nlp", "--reason", "x")
    assert "Give one of --gpus" in ran.err


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--budget", "b"], "Give --amount with --budget."),
        (["nlp", "--gpus", "4", "--amount", "50"], "Give --amount with --budget."),
        (["nlp", "--class", "urgent"], "Give --cap with --class."),
        (["nlp", "--gpus", "4", "--cap", "8"], "Give --cap with --class."),
    ],
)
def test_an_amount_goes_with_what_it_raises(server: Server, words: list[str], refusal: str) -> None:
    """Nothing is sent. Against: the refusal of an empty amount, after the first request."""
    ran = server.run("requests", "new", *words, "--reason", "x")
    assert (ran.exit_code, ran.err) == (2, f"Error: {refusal}\n")
    assert not server.requests


def test_an_empty_list_is_a_sentence(server: Server) -> None:
    """Against: a header alone."""
    server.routes["GET requests"] = {"items": [], "next": None}
    ran = server.run("requests", "list")
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "No requests.\n")


def test_the_end_of_an_id_names_one_request(server: Server) -> None:
    """Against: the same sentence for none and several."""
    none = server.run("requests", "show", "ffff").err
    assert "No request ends with 'ffff'. List them with: tidegate requests list" in none
    assert "No request ends with ''." in server.run("requests", "show", "").err
    other = {**REQUEST, "id": ID.replace("7000", "7001")}
    server.routes["GET requests"] = {"items": [REQUEST, other], "next": None}
    several = server.run("requests", "show", "0007").err
    assert "2 requests end with '0007'. Give more of the ID." in several


def test_a_loan_names_lender_and_end(server: Server) -> None:
    """Against: the lender and the node were swapped."""
    server.run(
        *("requests", "offer", "vision", "nlp", "16", "--pool", "h100"),
        *("--begin", "2026-11-26", "--until", "2026-11-27", "--reason", "idle"),
    )
    body = sent(server)
    assert (body["lender"], body["node"], body["amount"]) == ("vision", "nlp", 16_000)
    assert (body["begin"], body["until"]) == ("2026-11-26T00:00:00Z", "2026-11-27T00:00:00Z")


def test_decisions_are_based_on_the_present_state(server: Server) -> None:
    """The ETag is sent, and the sources by node. Against: no If-Match."""
    server.run("requests", "approve", ID, "--from", "vision=20,speech=40")
    assert sent(server)["sources"] == [
        {"node": "vision", "amount_mgpu": 20_000},
        {"node": "speech", "amount_mgpu": 40_000},
    ]
    assert "If-Match" in server.requests[-1].headers
    server.run("requests", "counter", ID, "--amount", "2", "--note", "2 are free")
    assert (sent(server)["amount"], sent(server)["note"]) == (2_000, "2 are free")
    server.run("requests", "reject", ID, "--note", "not now")
    assert sent(server) == {"note": "not now"}
    assert "write NODE=GPUS" in server.run("requests", "approve", ID, "--from", "x").err


def test_an_open_offer_is_answered(server: Server) -> None:
    """By its number. Without one, a sentence."""
    refused = server.run("requests", "accept", ID).err
    assert f"no open counter-offer. See its state with: tidegate requests show {ID}" in refused
    server.routes[f"GET requests/{ID}"] = {**REQUEST, "offers": [OFFER]}
    server.run("requests", "accept", ID)
    assert server.requests[-1].url.path.endswith(f"requests/{ID}/offers/2/accept")
    server.run("requests", "comment", ID, "hello")
    assert sent(server) == {"text": "hello"}


def test_a_change_that_waits_for_a_second_person_is_shown_and_overridden(server: Server) -> None:
    """With its effects; other organizations have no names. Planted: the write is not printed."""
    values = {"borrow_limit_mgpu": None, "weight": 100}
    write = {
        "operation": "quota.change",
        "measured_at": "2026-11-21T12:00:00Z",
        "stopped_jobs": 3,
        "moved_mgpu": 40_000,
        "stopped": [{"team": "", "pool": "h100", "jobs": 3, "at_risk_mgpu_s": 1}],
        "quotas": [
            {
                "node": "a/research/vision",
                "pool": "h100",
                "before": {**values, "guaranteed_mgpu": 120_000},
                "after": {**values, "guaranteed_mgpu": 80_000},
            }
        ],
        "rules": [{"rule": "class high", "before": {"order": 1}, "after": {"order": 2}}],
        "may_override": True,
    }
    shown = {**REQUEST, "write": write, "supply": None, "comments": []}
    server.routes[f"GET requests/{ID}"] = shown
    server.routes[f"POST requests/{ID}/override"] = shown
    ran = server.run("requests", "show", "abcd0007")
    assert ran.out.splitlines()[-3:] == [
        "a/research/vision in h100: 120 to 80 guaranteed",
        "class high: order 1 to 2",
        "other organizations in h100: 3 jobs stopped",
    ]
    assert "It moves 40 GPUs and would stop 3 running jobs" in ran.err
    server.run("requests", "override", "abcd0007", "--reason", "it burns")
    assert sent(server) == {"reason": "it burns"}
