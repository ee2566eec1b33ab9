"""`tidegate replay`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_problem, a_server
from cli import replay_command

CYCLE = "0197a000-0000-7000-8000-000000000001"
JOB = "0197a000-0000-7000-8000-000000000002"
OTHER = "0197a000-0000-7000-8000-000000000003"
STANDINGS = [
    {"node": "acme/serve", "guaranteed_mgpu": 16_000, "in_use_mgpu": 24_000},
    {"node": "acme", "guaranteed_mgpu": 32_000, "in_use_mgpu": 32_000},
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    now = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)
    monkeypatch.setattr(replay_command, "now_utc", lambda: now)
    return a_server(monkeypatch, str(tmp_path))


def a_named(job: str | None = JOB, name: str | None = "serve", **changes: Any) -> dict[str, Any]:
    return {"id": job, "name": name, "user": "ana", "team": "acme/serve", **changes}


def a_decision(**changes: Any) -> dict[str, Any]:
    return {
        "cycle": CYCLE,
        "decided_at": "2026-11-21T14:03:27Z",
        "decision": "stopped",
        "sentence": "8 GPUs were reclaimed from it.",
        "job": a_named(),
        "pool": "h100",
        "device": "gpu",
        "cluster": None,
        "mgpu": 8_000,
        "guaranteed_mgpu": 0,
        "grace_until": "2026-11-21T14:08:27Z",
        "standings": STANDINGS,
        "beneficiary": {
            **a_named(None, None, user=None, team="acme/train"),
            "mgpu": 8_000,
            "standings": [{"node": "acme/train", "guaranteed_mgpu": 16_000, "in_use_mgpu": 500}],
        },
        "victims": [],
        **changes,
    }


def a_victim(**changes: Any) -> dict[str, Any]:
    return {
        **a_named(),
        "mgpu": 8_000,
        "grace_s": 300,
        "right": "borrowed_above",
        "guaranteed_mgpu": 2_500,
        "unsaved_s": 1_500,
        "priority_class": "normal",
        "started_at": "2026-11-21T13:38:27Z",
        **changes,
    }


def test_why_a_job_was_preempted_at_a_time(server: Server) -> None:
    server.routes[f"GET jobs/{JOB}/decisions"] = {"items": [a_decision()]}
    ran = server.run("replay", "--job", JOB, "--at", "14:03")
    assert ran.exit_code == 0
    assert ran.out.splitlines() == [
        f"decided   2026-11-21T14:03:27Z (cycle {CYCLE})",
        f"job       serve ({JOB})",
        "decision  stopped",
        "why       8 GPUs were reclaimed from it.",
        "use then  acme/serve 24 of 16 GPUs guaranteed; acme 32 of 32 GPUs guaranteed",
        "for           acme/train",
        "its use then  acme/train 0.5 of 16 GPUs guaranteed",
    ]
    assert server.sent == [
        f"GET jobs/{JOB}/decisions?decided_at__gte=2026-11-21T14%3A03%3A00Z"
        "&decided_at__lt=2026-11-21T14%3A04%3A00Z&limit=20"
    ]


def test_of_a_pool_of_cores_cores_are_told(server: Server) -> None:
    """Planted: GPUs of every pool."""
    server.routes[f"GET jobs/{JOB}/decisions"] = {
        "items": [a_decision(device="cpu", pool="cpu", victims=[a_victim()])]
    }
    told = server.run("replay", "--job", JOB).out
    assert "use then  acme/serve 24 of 16 cores guaranteed; acme 32 of 32 cores guaranteed" in told
    assert "its use then  acme/train 0.5 of 16 cores guaranteed" in told
    assert "TEAM        CORES  GUARANTEED" in told
    assert "GPU" not in told.replace(a_decision()["sentence"], "")


def test_a_claim_is_shown_with_its_victims(server: Server) -> None:
    victims = [
        a_victim(),
        a_victim(**a_named(None, None, user=None, team=None), guaranteed_mgpu=None, unsaved_s=None),
    ]
    claimed = a_decision(decision="claimed", beneficiary=None, victims=victims, standings=[])
    server.routes[f"GET jobs/{JOB}/decisions"] = {"items": [claimed]}
    assert server.run("replay", "--job", JOB).out.splitlines()[4:] == [
        "VICTIM  TEAM                  GPUS  GUARANTEED  RIGHT           NOT SAVED  GRACE",
        "serve   acme/serve               8         2.5  borrowed above  25m        5m",
        "-       another organization     8           -  borrowed above  -          5m",
    ]


@pytest.mark.parametrize(
    ("at", "start", "end"),
    [
        ("9:03", "2026-11-21T09:03:00Z", "2026-11-21T09:04:00Z"),
        ("14:03:27", "2026-11-21T14:03:27Z", "2026-11-21T14:03:28Z"),
        ("2026-11-20T23:59Z", "2026-11-20T23:59:00Z", "2026-11-21T00:00:00Z"),
        ("2026-11-20T23:59:59", "2026-11-20T23:59:59Z", "2026-11-21T00:00:00Z"),
    ],
)
def test_a_time_is_its_minute_or_its_second(server: Server, at: str, start: str, end: str) -> None:
    server.routes["GET cycles"] = {"items": [], "next": None}
    ran = server.run("replay", "--at", at)
    assert (ran.exit_code, ran.err.splitlines()) == (0, [f"No cycles are recorded at {at}."])
    assert dict(server.requests[0].url.params) == {
        "decided_at__gte": start,
        "decided_at__lt": end,
        "limit": "20",
    }


@pytest.mark.parametrize("at", ["25:00", "noon", "2026-11-31T10:00", "14"])
def test_what_is_no_time_is_refused(server: Server, at: str) -> None:
    ran = server.run("replay", "--at", at)
    assert (ran.exit_code, server.sent) == (2, [])
    assert ran.err == (f"Error: --at '{at}': write 14:03 (today, UTC) or 2026-11-21T14:03:27Z.\n")


def test_nothing_recorded_leads_to_why(server: Server) -> None:
    server.routes[f"GET jobs/{JOB}/decisions"] = {"items": []}
    assert server.run("replay", "--job", JOB).err == (
        "No recorded cycle started it, stopped it or reserved GPUs for it. `tidegate why` shows why"
        " it waits.\n"
    )


def test_cycles_are_listed(server: Server) -> None:
    cycle = {
        "id": CYCLE,
        "decided_at": "2026-11-21T14:03:27Z",
        "epoch": 3,
        "version": "0.1.0",
        "started": 12,
        "claimed": 1,
        "stopped": 2,
        "claims_dropped": 0,
        "bytes": 10,
    }
    server.routes["GET cycles"] = {"items": [cycle], "next": None}
    assert server.run("replay").out.splitlines() == [
        "DECIDED               STARTED  CLAIMED  STOPPED  VERSION  CYCLE",
        f"2026-11-21T14:03:27Z       12        1        2    0.1.0  {CYCLE}",
    ]
    assert json.loads(server.run("replay", "-o", "json").out) == [cycle]


def a_replayed(**changes: Any) -> dict[str, Any]:
    return {
        "id": CYCLE,
        "decided_at": "2026-11-21T14:03:27Z",
        "version": "0.1.0",
        "queued": 12,
        "running": 3,
        "decisions": [a_decision(decision="started", beneficiary=None, standings=[])],
        "is_same_policy": True,
        "difference_count": 0,
        "differences": [],
        **changes,
    }


def test_a_cycle_that_would_be_decided_alike_says_so(server: Server) -> None:
    server.routes[f"GET cycles/{CYCLE}"] = a_replayed()
    assert server.run("replay", CYCLE).out.splitlines() == [
        "decided     2026-11-21T14:03:27Z",
        "by version  0.1.0",
        "waited      12",
        "ran         3",
        "",
        f"decided   2026-11-21T14:03:27Z (cycle {CYCLE})",
        f"job       serve ({JOB})",
        "decision  started",
        "why       8 GPUs were reclaimed from it.",
        "",
        "Today's decisions would be the same.",
    ]


def a_fate(decision: str, **changes: Any) -> dict[str, Any]:
    return {
        "decision": decision,
        "cluster": None,
        "nodes": [],
        "other_jobs": [],
        "code": None,
        "grace_s": None,
        **changes,
    }


def test_differences_are_listed(server: Server) -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    serve, train = a_named(), a_named(OTHER, "train")
    server.routes[f"GET cycles/{CYCLE}"] = a_replayed(
        is_same_policy=False,
        difference_count=2,
        differences=[
            {
                "job": train,
                "then": a_fate("claimed", cluster="hpc1", nodes=nodes, other_jobs=[serve]),
                "today": a_fate("waits", code="borrow_limit_reached"),
            },
            {
                "job": serve,
                "then": a_fate("stopped", other_jobs=[train], grace_s=300),
                "today": a_fate("waits"),
            },
        ],
    )
    ran = server.run("replay", CYCLE)
    assert ran.out.splitlines()[-4:] == [
        "Today, 2 jobs would be treated differently:",
        "JOB    THEN                                        TODAY",
        "train  claimed on hpc1 n1,n2,n3,…, stopping serve  waits: borrow_limit_reached",
        "serve  stopped for train in 5m                     left as it is",
    ]
    assert ran.err == "The policy has changed since then.\n"


def test_a_refusal_is_told(server: Server) -> None:
    server.routes["GET cycles"] = a_problem(
        403, detail="Only a platform administrator may do this."
    )
    ran = server.run("replay")
    assert (ran.exit_code, ran.err) == (
        3,
        "For decisions on your jobs, run `tidegate decisions`; for one job, "
        "`tidegate replay --job JOB`.\n"
        "Error: No: Only a platform administrator may do this.\n",
    )


def test_what_is_no_cycle_is_not_asked_for(server: Server) -> None:
    ran = server.run("replay", "serve")
    assert (ran.exit_code, server.requests, ran.err) == (
        2,
        [],
        "Error: 'serve' is not the id of a cycle. `tidegate replay` lists cycles, and "
        "`tidegate replay --job JOB` lists those of a job.\n",
    )


def test_a_cycle_goes_with_no_job(server: Server) -> None:
    ran = server.run("replay", CYCLE, "--job", JOB)
    assert (ran.exit_code, ran.err) == (2, "Error: Give either a cycle, or --job and --at.\n")
