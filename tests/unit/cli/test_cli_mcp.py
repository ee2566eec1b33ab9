"""The tools of `tidegate mcp`, over a client of the protocol."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.types import TextContent

from builders.cli_server import JOB_ID, SECRET, Server, a_problem, a_server, a_shown_job, created
from cli.agent_tools import server_of
from cli.api import Api
from cli.confirming import OPEN_MAX, VALID_S, Confirmations
from cli.errors import CliError
from cli.settings import Settings

READING = [
    *("explain_spend_change", "find_waste", "get_job", "get_quotas", "list_jobs", "list_notices"),
    *("plan_job", "read_log", "report_usage", "why_job_waits"),
]
WRITING = ["cancel_job", "hold_job", "release_job", "requeue_job", "submit_job"]
REQUEST = {"name": "bert", "team": "ai-company/research/nlp", "gpus": 8, "script": "train"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET session"] = {
        "user": {"username": "bob"},
        "permissions": {"ai-company/research/nlp": ["view_jobs", "submit_jobs"]},
    }
    return server


def call(server: Server, *calls: tuple[str, dict[str, Any]], writes: bool = False) -> list[Any]:
    """Answers of the tools in one session: JSON, or the sentence of a refusal."""
    api = Api(
        Settings("https://tidegate.example", SECRET, "bob@ai-company"),
        version="1",
        transport=httpx.MockTransport(server.handle),
    )

    async def answers() -> list[Any]:
        found: list[Any] = []
        async with Client(server_of(api, version="1", allows_writes=writes)) as client:
            for name, arguments in calls:
                given = {
                    key: found[-1]["confirmation"] if value is CONFIRMED else value
                    for key, value in arguments.items()
                }
                result = await client.call_tool(name, given)
                (content,) = result.content
                assert isinstance(content, TextContent)
                found.append(content.text if result.is_error else json.loads(content.text))
        return found

    return asyncio.run(answers())


#: Stands for the confirmation of the answer before.
CONFIRMED = object()


def tools_of(server: Server, *, writes: bool) -> dict[str, bool | None]:
    """Hints of the offered tools by name: True for those that only read."""
    api = Api(
        Settings("https://tidegate.example", SECRET),
        version="1",
        transport=httpx.MockTransport(server.handle),
    )

    async def listed() -> dict[str, bool | None]:
        async with Client(server_of(api, version="1", allows_writes=writes)) as client:
            found = await client.list_tools()
        return {
            tool.name: None if tool.annotations is None else tool.annotations.read_only_hint
            for tool in found.tools
        }

    return asyncio.run(listed())


def test_tools_read_only_until_writes_are_switched_on(server: Server) -> None:
    """Planted: the switch ignored; a tool that writes marked as one that reads."""
    assert tools_of(server, writes=False) == dict.fromkeys(READING, True)
    assert tools_of(server, writes=True) == {
        **dict.fromkeys(READING, True),
        **dict.fromkeys(WRITING, False),
    }


def test_a_token_that_cannot_write_offers_no_writes(server: Server) -> None:
    """Planted: any permission counted as one to write."""
    server.routes["GET session"] = {"permissions": {"ai-company": ["view_jobs", "view_tree"]}}
    with pytest.raises(CliError, match="the token may not submit or change jobs"):
        tools_of(server, writes=True)
    assert list(tools_of(server, writes=False)) != []


def test_reading_tools_send_the_requests_of_the_commands(server: Server) -> None:
    """Planted: a subtree sent as a node; a log read from its beginning; a limit not passed on."""
    page: dict[str, Any] = {"items": [], "next": None}
    for route in ("jobs", "quotas", "notices", "today", "reports/chargeback"):
        server.routes[f"GET {route}"] = page
    server.routes["GET reports/chargeback/moves"] = page
    server.routes[f"GET jobs/{JOB_ID}/explanation"] = {"code": "waiting_for_quota"}
    server.routes[f"GET jobs/{JOB_ID}/logs"] = {"text": "done"}
    server.routes[f"POST jobs/{JOB_ID}/alternatives"] = page
    server.routes["POST jobs"] = {"would_start_now": True}
    answers = call(
        server,
        ("list_jobs", {"state": "queued,held", "name": "bert", "limit": 5}),
        ("why_job_waits", {"job": JOB_ID, "alternatives": True}),
        ("plan_job", {"request": REQUEST}),
        ("read_log", {"job": JOB_ID, "stream": "stderr"}),
        ("get_quotas", {"team": "ai-company/research", "pool": "h100"}),
        ("report_usage", {"by": "team", "start": "2026-11-01", "end": "2026-12-01"}),
        ("explain_spend_change", {"team": "ai-company"}),
        ("find_waste", {}),
        ("list_notices", {"unread": True}),
    )
    assert server.sent == [
        "GET session",
        "GET jobs?state=queued%2Cheld&q=bert&limit=5",
        f"GET jobs/{JOB_ID}/explanation",
        f"POST jobs/{JOB_ID}/alternatives",
        "POST jobs?dry_run=true",
        f"GET jobs/{JOB_ID}/logs?stream=stderr&rank=0&offset=-16384&limit=16384",
        "GET quotas?subtree=ai-company%2Fresearch&pool=h100&limit=50",
        "GET reports/chargeback?by=team&start=2026-11-01&end=2026-12-01",
        "GET reports/chargeback/moves?node=ai-company",
        "GET today",
        "GET notices?unread=true&limit=20",
    ]
    assert answers[1] == {"code": "waiting_for_quota", "alternatives": page}
    assert answers[2:4] == [{"would_start_now": True}, {"text": "done"}]


def test_refusals_reach_the_agent_as_sentences(server: Server) -> None:
    """Planted: an error that the protocol hides behind a name of a tool."""
    server.routes["GET today"] = a_problem(403, title="Forbidden", detail="Ask a team lead.")
    refused, too_many = call(server, ("find_waste", {}), ("list_jobs", {"limit": 101}))
    assert refused == "Error executing tool find_waste: Forbidden: Ask a team lead."
    assert "less than or equal to 100" in too_many


def test_a_submission_needs_its_own_confirmation(server: Server) -> None:
    """Planted: a code valid twice; a code valid for another request; a job without a plan."""
    plan = {"would_start_now": True}
    server.routes["POST jobs"] = [httpx.Response(200, json=plan), created()]
    preview, job, again = call(
        server,
        ("submit_job", {"request": REQUEST}),
        ("submit_job", {"request": REQUEST, "confirmation": CONFIRMED}),
        ("submit_job", {"request": REQUEST, "confirmation": "0" * 16}),
        writes=True,
    )
    assert preview["preview"] == plan
    assert job["id"] == JOB_ID
    assert server.sent == ["GET session", "POST jobs?dry_run=true", "POST jobs"]
    assert server.requests[-1].headers["Idempotency-Key"] == preview["confirmation"]
    assert "unknown, used or expired. Nothing was done." in again

    server.routes["POST jobs"] = plan
    server.requests.clear()
    _, other = call(
        server,
        ("submit_job", {"request": REQUEST}),
        ("submit_job", {"request": {**REQUEST, "gpus": 64}, "confirmation": CONFIRMED}),
        writes=True,
    )
    assert "belongs to other arguments" in other
    assert server.sent == ["GET session", "POST jobs?dry_run=true"]


def test_a_job_that_changed_is_previewed_again(server: Server) -> None:
    """Planted: the state of the job left out of what was confirmed."""
    queued = a_shown_job(can=["cancel"])
    server.routes[f"GET jobs/{JOB_ID}"] = [
        httpx.Response(200, json=queued),
        httpx.Response(200, json={**queued, "state": "running"}),
    ]
    preview, refused = call(
        server,
        ("cancel_job", {"job": JOB_ID}),
        ("cancel_job", {"job": JOB_ID, "confirmation": CONFIRMED}),
        writes=True,
    )
    assert preview["preview"] == {
        "action": "cancel",
        "job": {
            "id": JOB_ID,
            "name": "bert",
            "team": "ai-company/research/nlp",
            "user": "bob",
            "state": "queued",
            "mgpu": 16_000,
        },
    }
    assert "the job changed since" in refused
    assert not any(request.method == "POST" for request in server.requests)


@pytest.mark.parametrize("action", ["cancel", "hold", "release", "requeue"])
def test_confirmed_changes_are_sent_once(server: Server, action: str) -> None:
    """Planted: another action sent than the tool's."""
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job(can=[action])
    server.routes[f"POST jobs/{JOB_ID}/{action}"] = a_shown_job(state="cancelled")
    _, done = call(
        server,
        (f"{action}_job", {"job": JOB_ID}),
        (f"{action}_job", {"job": JOB_ID, "confirmation": CONFIRMED}),
        writes=True,
    )
    assert done["state"] == "cancelled"
    assert [sent for sent in server.sent if sent.startswith("POST")] == [
        f"POST jobs/{JOB_ID}/{action}"
    ]


def test_what_a_job_does_not_allow_is_refused_before_a_preview(server: Server) -> None:
    """Planted: `can` not asked."""
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job(can=["cancel"])
    (refused,) = call(server, ("requeue_job", {"job": JOB_ID}), writes=True)
    assert refused == (
        "Error executing tool requeue_job: bert is queued: you cannot requeue it. "
        "Possible now: cancel."
    )


def test_confirmations_end_by_time_and_by_number() -> None:
    """Planted: no lifetime; no bound on open codes; a code that survives its use."""
    now_s = [0.0]
    confirmations = Confirmations(lambda: now_s[0])
    what = {"action": "cancel"}
    late = confirmations.offer(what)
    now_s[0] = float(VALID_S)
    with pytest.raises(CliError, match="unknown, used or expired"):
        confirmations.take(late, what)
    first = confirmations.offer(what)
    others = [confirmations.offer(what) for _ in range(OPEN_MAX)]
    with pytest.raises(CliError, match="unknown, used or expired"):
        confirmations.take(first, what)
    confirmations.take(others[0], what)
    with pytest.raises(CliError, match="unknown, used or expired"):
        confirmations.take(others[0], what)
