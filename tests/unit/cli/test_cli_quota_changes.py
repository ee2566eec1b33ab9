"""`tidegate quota-changes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_problem, a_server

CHANGE = "0197a000-0000-7000-8000-00000000000c"
OTHER = "0197a000-0000-7000-8000-00000000000d"
NLP = "0197a000-0000-7000-8000-000000000001"
VISION = "0197a000-0000-7000-8000-000000000002"
PATH = f"quota-changes/{CHANGE}"
VALUES: dict[str, Any] = {
    "guaranteed_mgpu": 8_000,
    "guaranteed_percent": None,
    "borrow_limit_mgpu": None,
    "lend_limit_mgpu": None,
    "weight": 100,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def an_edit(given: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "quota": NLP,
        "node": "ai-company/research/nlp",
        "pool": "h100",
        "device": "gpu",
        "before": VALUES,
        "current": VALUES,
        "is_stale": False,
        "set": given,
        **changes,
    }


def a_change(**changes: Any) -> dict[str, Any]:
    return {
        "id": CHANGE,
        "node": "ai-company/research",
        "reason": "conference",
        "status": "draft",
        "created_by": "ana@ai-company",
        "created_at": "2026-11-21T12:00:00Z",
        "expires_at": "2026-11-28T12:00:00Z",
        "apply_at": None,
        "revert_after_s": 86_400,
        "decided_by": None,
        "decided_at": None,
        "applied_at": None,
        "revert_at": None,
        "ended_at": None,
        "note": "",
        "can_manage": True,
        "can_preview": True,
        "can_apply": True,
        "edits": [an_edit({"guaranteed_mgpu": 12_000, "lend_limit_mgpu": None})],
        **changes,
    }


def tagged(body: dict[str, Any], etag: str = '"e1"') -> httpx.Response:
    return httpx.Response(200, json=body, headers={"ETag": etag})


def a_quota(quota_id: str, pool: str = "h100") -> dict[str, Any]:
    return {"items": [{"id": quota_id, "pool": pool}], "next": None}


def test_the_list_says_what_comes_next(server: Server) -> None:
    scheduled = a_change(id=OTHER, status="scheduled", apply_at="2026-12-01T07:00:00Z")
    server.routes["GET quota-changes"] = {"items": [a_change(), scheduled], "next": None}
    ran = server.run("quota-changes", "list", "--status", "draft")
    assert ran.out.splitlines() == [
        "CHANGE        STATUS     NEXT                  EDITS  BY              REASON",
        "00000000000c  draft      2026-11-28T12:00:00Z      1  ana@ai-company  conference",
        "00000000000d  scheduled  2026-12-01T07:00:00Z      1  ana@ai-company  conference",
    ]
    assert server.sent == ["GET quota-changes?status=draft&limit=20"]


def test_a_draft_is_sent_as_the_api_takes_it(server: Server) -> None:
    server.routes["GET quotas"] = [a_quota(NLP), a_quota(VISION), a_quota(NLP)]
    server.routes["POST quota-changes"] = a_change()
    ran = server.run(
        "quota-changes",
        "draft",
        "ai-company/research/nlp:guaranteed=12.5,borrow=none",
        "ai-company/research/vision/:guaranteed=33.3%,lend=0",
        "ai-company/research/nlp:weight=7",
        "--pool=h100",
        "--reason=conference",
        "--at=2026-12-01T07:00Z",
        "--revert-after=3d",
    )
    assert ran.exit_code == 0
    assert server.sent[1] == "GET quotas?node=ai-company%2Fresearch%2Fvision&pool=h100&limit=500"
    assert server.body() == {
        "edits": [
            {
                "quota": NLP,
                "guaranteed_mgpu": 12_500,
                "borrow_limit_mgpu": None,
                "weight": 7,
            },
            {"quota": VISION, "guaranteed_percent": "33.3", "lend_limit_mgpu": 0},
        ],
        "reason": "conference",
        "apply_at": "2026-12-01T07:00:00Z",
        "revert_after_s": 259_200,
    }
    assert server.requests[-1].headers["Idempotency-Key"]
    assert ran.out.splitlines() == [
        f"change          {CHANGE}",
        "status          draft",
        "reason          conference",
        "of              ai-company/research",
        "drafted         2026-11-21T12:00:00Z by ana@ai-company",
        "to be applied   once approved",
        "to be reverted  1d after",
        "you may apply   yes",
        "",
        "NODE                     POOL  FIGURE       WAS    IS  SETS  CHANGED SINCE",
        "ai-company/research/nlp  h100  guaranteed     8     8    12  no",
        "ai-company/research/nlp  h100  lend limit  none  none  none  no",
    ]


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("ai-company/research/nlp", "write NODE:guaranteed=12"),
        ("nlp:color=red", "'color=red' is not a setting"),
        ("nlp:guaranteed=lots", "write a number such as 8 or 0.5"),
        ("nlp:guaranteed=0.0001", "at most three decimals"),
        ("nlp:weight=1.5", "write a whole number"),
        # Planted: the last one won, in silence.
        ("nlp:lend=1,lend=2", "one setting of nlp is given twice"),
        ("nlp:guaranteed=4,guaranteed=10%", "one setting of nlp is given twice"),
    ],
)
def test_what_cannot_be_read_is_refused_before_it_is_sent(
    server: Server, edit: str, told: str
) -> None:
    server.routes["GET quotas"] = a_quota(NLP)
    ran = server.run("quota-changes", "draft", edit, "--reason=x")
    assert (ran.exit_code, told in ran.err) == (2, True)
    assert not any(line.startswith("POST") for line in server.sent)


def test_a_time_without_a_zone_is_refused(server: Server) -> None:
    server.routes["GET quotas"] = a_quota(NLP)
    ran = server.run(
        "quota-changes", "draft", "nlp:weight=1", "--reason=x", "--at=2026-12-01T07:00"
    )
    assert (ran.exit_code, ran.err) == (
        2,
        "Error: --at '2026-12-01T07:00': write UTC, such as 2026-12-01T07:00Z.\n",
    )


def test_a_node_that_is_named_twice_has_each_figure_once(server: Server) -> None:
    server.routes["GET quotas"] = a_quota(NLP)
    ran = server.run("quota-changes", "draft", "nlp:weight=1", "nlp:weight=2", "--reason=x")
    assert ran.err == "Error: 'nlp:weight=2': one setting of nlp is given twice.\n"


def test_a_node_with_several_quotas_needs_its_pool(server: Server) -> None:
    both = [*a_quota(NLP)["items"], *a_quota(VISION, "a100")["items"]]
    server.routes["GET quotas"] = {"items": both, "next": None}
    ran = server.run("quota-changes", "draft", "nlp:weight=1", "--reason=x")
    assert ran.err == "Error: nlp has quotas in h100, a100. Choose one with --pool.\n"


def test_a_preview_tells_starts_losses_and_teams_and_the_state_it_saw(server: Server) -> None:
    team = {
        "team": "ai-company/research/nlp",
        "pool": "h100",
        "device": "gpu",
        "use_now_mgpu": 0,
        "use_before_mgpu": 8_000,
        "use_after_mgpu": 12_000,
        "guaranteed_before_mgpu_s": 3_600_000,
        "guaranteed_after_mgpu_s": 9_000_000,
        "borrowed_before_mgpu_s": 0,
        "borrowed_after_mgpu_s": 0,
        "cost_before_nano": 4_000_000_000,
        "cost_after_nano": 1_500_000_000,
        "jobs_sooner": 1,
        "jobs_later": 0,
        "jobs_reclaimed": 1,
        "at_risk_mgpu_s": 3_600_000,
        "jobs_spared": 0,
    }
    job = {
        "job": OTHER,
        "team": "ai-company/research/nlp",
        "user": "bob",
        "mgpu": 4_000,
        "pool": "h100",
        "device": "gpu",
    }
    preview = {
        "as_of": "2026-11-21T12:00:00Z",
        "until": "2026-11-21T18:00:00Z",
        "asked_until": "2026-11-22T12:00:00Z",
        "is_cut": True,
        "precision_s": 432,
        "assumed_ends": 0,
        "refusal": "",
        "quotas": [
            {"quota": NLP, "node": "ai-company/research/nlp", "pool": "h100", "device": "gpu",
             "before": VALUES,
             "after": {**VALUES, "guaranteed_mgpu": 12_000, "lend_limit_mgpu": 4_000}},
        ],
        "pools": [{"pool": "h100", "is_overcommitted": True}],
        "starts": [
            {**job, "name": "bert", "before": None, "after": "2026-11-21T12:05:00Z",
             "sooner_s": 21_300, "is_at_least": True},
        ],
        "reclaimed": [
            {**job, "name": "gpt", "noticed_at": "2026-11-21T12:01:00Z",
             "at_risk_mgpu_s": 3_600_000, "beneficiary": None},
        ],
        "spared": [],
        "teams": [team],
        "currency": "EUR",
    }  # fmt: skip
    server.routes["GET quota-changes"] = {"items": [a_change()], "next": None}
    server.routes[f"POST {PATH}/preview"] = tagged(preview, '"seen"')
    ran = server.run("quota-changes", "preview", "00000c", "--horizon", "1d")
    assert ran.exit_code == 0
    assert server.body() == {"horizon_s": 86_400}
    assert ran.out.splitlines() == [
        "from           2026-11-21T12:00:00Z",
        "until          2026-11-21T18:00:00Z (cut: too much work)",
        "exact to       7m12s",
        "overcommitted  h100",
        "",
        "Quotas:",
        "NODE                     POOL  FIGURE      WITHOUT  WITH",
        "ai-company/research/nlp  h100  guaranteed        8    12",
        "ai-company/research/nlp  h100  lend limit     none     4",
        "",
        "Starts at another time:",
        "JOB   TEAM                     GPUS  WITHOUT      WITH                  DIFFERENCE",
        "bert  ai-company/research/nlp     4  not by then  2026-11-21T12:05:00Z  "
        "at least 5h55m sooner",
        "",
        "Preempted:",
        "JOB  TEAM                     GPUS  NOTICE                GPU-HOURS AT RISK",
        "gpt  ai-company/research/nlp     4  2026-11-21T12:01:00Z              1.000",
        "",
        "TEAM                     POOL  USE NOW  AT END  INSTEAD OF  GPU-HOURS  COST EUR  SOONER"
        "  LATER  PREEMPTED  AT RISK",
        "ai-company/research/nlp  h100        0      12           8      1.500     -2.50       1"
        "      0          1    1.000",
    ]
    assert ran.err.splitlines()[-1] == "State: seen"


def test_a_preview_of_what_the_rules_refuse_fails_with_their_words(server: Server) -> None:
    """A script goes by the exit code, however it is printed. Planted: JSON exits with 0."""
    server.routes[f"POST {PATH}/preview"] = tagged({"refusal": "Research has 16 GPUs."})
    for output, printed in (
        ((), ""),
        (("-o", "json"), '{\n  "refusal": "Research has 16 GPUs."\n}\n'),
    ):
        ran = server.run("quota-changes", "preview", CHANGE, *output)
        assert (ran.exit_code, ran.out) == (3, printed)
        assert ran.err.splitlines()[0] == (
            "Error: It cannot be applied at present: Research has 16 GPUs."
        )


def test_what_is_applied_is_what_was_seen(server: Server) -> None:
    """Planted: the state of now sent in spite of --if-match (the first would be e1)."""
    server.routes[f"GET {PATH}"] = tagged(a_change())
    server.routes[f"POST {PATH}/apply"] = tagged(a_change(status="applied"))
    assert server.run("quota-changes", "apply", CHANGE, "--if-match", "seen").exit_code == 0
    assert server.run("quota-changes", "apply", CHANGE).exit_code == 0
    sent = [request.headers["If-Match"] for request in server.requests if request.method == "POST"]
    assert sent == ['"seen"', '"e1"']


def test_what_was_kept_is_not_said_to_be_taken_back(server: Server) -> None:
    """Planted: the same label whatever became of it."""
    server.routes[f"GET quota-changes/{CHANGE}"] = a_change(
        status="kept", applied_at="2026-12-01T07:00:00Z", revert_at="2026-12-02T07:00:00Z"
    )
    assert "not reverted   2026-12-02T07:00:00Z" in server.run("quota-changes", "show", CHANGE).out


def test_what_changed_meanwhile_is_told_and_the_draft_is_kept(server: Server) -> None:
    stale = an_edit(
        {"guaranteed_mgpu": 12_000},
        current={**VALUES, "guaranteed_mgpu": 6_000, "borrow_limit_mgpu": 0},
        is_stale=True,
    )
    server.routes[f"GET {PATH}"] = tagged(a_change())
    server.routes[f"POST {PATH}/apply"] = a_problem(412, current=a_change(edits=[stale]))
    ran = server.run("quota-changes", "apply", CHANGE)
    assert ran.exit_code == 3
    assert ran.err.splitlines() == [
        "ai-company/research/nlp in h100: guaranteed 8 is now 6, borrow limit none is now 0",
        "Error: No: It is refused.",
    ]


def test_a_draft_without_a_time_is_not_scheduled(server: Server) -> None:
    server.routes[f"GET {PATH}"] = tagged(a_change())
    ran = server.run("quota-changes", "schedule", CHANGE)
    assert (ran.exit_code, "This draft has no time." in ran.err) == (2, True)
    assert server.sent == [f"GET {PATH}"]
    server.routes[f"GET {PATH}"] = tagged(a_change(apply_at="2026-12-01T07:00:00Z"))
    server.routes[f"POST {PATH}/apply"] = tagged(a_change(status="scheduled"))
    assert server.run("quota-changes", "schedule", CHANGE).exit_code == 0


def test_a_change_is_cancelled_by_the_end_of_its_id(server: Server) -> None:
    server.routes["GET quota-changes"] = {
        "items": [a_change(), a_change(id=OTHER)],
        "next": None,
    }
    server.routes[f"POST {PATH}/cancel"] = a_change(status="cancelled")
    ran = server.run("quota-changes", "cancel", "0000c")
    assert (ran.exit_code, server.sent[-1]) == (0, f"POST {PATH}/cancel")
    ran = server.run("quota-changes", "cancel", "7000")
    assert ran.err.startswith("Error: No planned change ends with '7000'")
