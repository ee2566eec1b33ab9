"""`tidegate policy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_problem, a_server

ORGANIZATION = "0197a000-0000-7000-8000-000000000001"
CLASS = "0197a000-0000-7000-8000-000000000002"
PATH = f"organizations/{ORGANIZATION}/policy"
POLICY = {
    "organization": "ai-company",
    "rank": ["ai-company/production", "ai-company/research"],
    "grace_period_s": 300,
    "skips_blocked_within_team": True,
    "version": 4,
}


def a_class(**changes: Any) -> dict[str, Any]:
    return {
        "id": CLASS,
        "organization": "ai-company",
        "name": "critical",
        "order": 1000,
        "preempts_within_team": True,
        "preempts_across_teams": False,
        "grace_period_s": 300,
        "team_cap_mgpu": None,
        "price_multiplier_ppm": 1_500_000,
        "description": "production inference",
        "is_retired": False,
        "version": 2,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET organizations"] = {
        "items": [{"id": ORGANIZATION, "slug": "ai-company"}],
        "next": None,
    }
    return server


def test_a_policy_is_shown_with_its_units(server: Server) -> None:
    server.routes[f"GET {PATH}"] = POLICY
    server.routes["GET policy"] = {"grace_period_s_max": 300, "version": 1}
    assert server.run("policy", "get", "ai-company").out.splitlines() == [
        "organization               ai-company",
        "rank                       ai-company/production, then ai-company/research",
        "grace_period_s             300 (5m)",
        "skips_blocked_within_team  yes",
        "version                    4",
    ]
    server.routes["GET policy"] = {"grace_period_s_max": 3600, "version": 1}
    assert server.run("policy", "get").out.splitlines()[0] == "grace_period_s_max  3600 (1h)"


@pytest.mark.parametrize(
    ("most_s", "told"),
    [(300, ""), (299, "The installation limits grace_period_s to 299 (4m59s).\n")],
)
def test_a_grace_that_the_installation_cuts_is_told(server: Server, most_s: int, told: str) -> None:
    server.routes[f"GET {PATH}"] = POLICY
    server.routes["GET policy"] = {"grace_period_s_max": most_s, "version": 1}
    ran = server.run("policy", "get", "ai-company")
    assert (ran.exit_code, ran.err) == (0, told)


def test_settings_are_sent_in_the_version_that_was_read(server: Server) -> None:
    server.routes[f"GET {PATH}"] = POLICY
    server.routes[f"PATCH {PATH}"] = POLICY
    ran = server.run(
        "policy",
        "set",
        "--organization=ai-company",
        "grace_period_s=10m",
        "min_run_s=90s",
        "rank=ai-company/research,ai-company/production",
        "skips_blocked_within_team=no",
        "preemptions_max=7",
        "spare_order=fair_share",
    )
    assert ran.exit_code == 0
    assert server.requests[-1].headers["If-Match"] == '"v4"'
    assert server.body() == {
        "grace_period_s": 600,
        "min_run_s": 90,
        "rank": ["ai-company/research", "ai-company/production"],
        "skips_blocked_within_team": False,
        "preemptions_max": 7,
        "spare_order": "fair_share",
    }


@pytest.mark.parametrize("version", ["3", "v3", '"v3"'])
def test_a_script_changes_only_the_version_that_it_has_seen(server: Server, version: str) -> None:
    """Planted: the version of that moment was sent, so that of two scripts the last one won."""
    server.routes[f"GET {PATH}"] = POLICY
    server.routes[f"PATCH {PATH}"] = a_problem(412, detail="It was changed since; read it again.")
    ran = server.run(
        *("policy", "set", "--organization=ai-company", "--if-match", version, "min_run_s=90s")
    )
    assert (ran.exit_code, "It was changed since" in ran.err) == (3, True)
    assert server.requests[-1].headers["If-Match"] == '"v3"'
    assert f"GET {PATH}" not in server.sent
    server.routes["GET priority-classes"] = {"items": [a_class()], "next": None}
    server.routes[f"PATCH priority-classes/{CLASS}"] = a_class(order=7)
    assert server.run("policy", "set-class", "critical", "--if-match", version, "order=7").out
    assert server.requests[-1].headers["If-Match"] == '"v3"'


def test_classes_are_listed_first_served_first(server: Server) -> None:
    low = a_class(name="low", order=1, preempts_within_team=False, team_cap_mgpu=64_000)
    server.routes["GET priority-classes"] = {"items": [low, a_class()], "next": None}
    assert server.run("policy", "classes").out.splitlines() == [
        "ORGANIZATION  CLASS     ORDER  STOPS            GRACE   CAP  PRICE  FOR",
        "ai-company    critical   1000  lower, own team  5m     none   1.50  production inference",
        "ai-company    low           1  nobody           5m       64   1.50  production inference",
    ]


def test_a_class_is_changed_and_its_refusal_told_by_field(server: Server) -> None:
    server.routes["GET priority-classes"] = {"items": [a_class()], "next": None}
    server.routes[f"PATCH priority-classes/{CLASS}"] = [
        a_class(team_cap_mgpu=64_500),
        a_problem(400, errors=[{"pointer": "/team_cap_mgpu", "detail": "is needed"}]),
    ]
    ran = server.run(
        "policy", "set-class", "critical", "team_cap=64.5", "preempts_across_teams=yes"
    )
    assert (ran.exit_code, "team_cap               64.5 GPUs" in ran.out) == (0, True)
    assert server.body() == {"team_cap_mgpu": 64_500, "preempts_across_teams": True}
    assert server.requests[-1].headers["If-Match"] == '"v2"'
    ran = server.run("policy", "set-class", "critical", "team_cap=none", "description=7")
    assert (ran.exit_code, ran.err.splitlines()[-1]) == (3, "  team_cap_mgpu: is needed")
    assert server.body() == {"team_cap_mgpu": None, "description": "7"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["get", "nowhere"], "There is no organization 'nowhere'. Known: ai-company."),
        (["set", "grace"], "'grace': write NAME=VALUE."),
        (["set", "min_run_s=30"], "min_run_s: '30' has no unit. Write 30s, 30m or 30h."),
        (["set-class", "critical", "price=much"], "price=much: write a factor of the price"),
        (["remove-class", "urgent"], "There is no priority class 'urgent'"),
        (["set", "skips_blocked_within_team=maybe"], "write yes or no."),
        (["set-class", "urgent", "order=1"], "There is no priority class 'urgent'"),
        (["set-class", "critical", "order=1"], "critical is a class of a, b. Choose one"),
    ],
)
def test_what_means_nothing_is_refused(server: Server, arguments: list[str], told: str) -> None:
    both = [a_class(organization="b"), a_class(organization="a")]
    server.routes["GET priority-classes"] = {"items": both, "next": None}
    ran = server.run("policy", *arguments)
    assert (ran.exit_code, told in ran.err) == (2, True)


def test_a_class_is_added_under_one_key(server: Server) -> None:
    server.routes["POST priority-classes"] = a_class(
        name="deadline", price_multiplier_ppm=2_500_000
    )
    ran = server.run(
        *("policy", "add-class", "deadline", "--organization=ai-company", "order=500"),
        *("team_cap=64", "preempts_across_teams=yes", "grace_period_s=1m", "price=2.5"),
    )
    assert (ran.exit_code, "price                  2.50" in ran.out) == (0, True)
    assert server.requests[-1].headers["Idempotency-Key"]
    assert server.body() == {
        "organization": "ai-company",
        "name": "deadline",
        "order": 500,
        "team_cap_mgpu": 64_000,
        "preempts_across_teams": True,
        "grace_period_s": 60,
        "price_multiplier_ppm": 2_500_000,
    }


def test_a_class_is_retired_or_removed_in_the_version_that_was_read(server: Server) -> None:
    server.routes["GET priority-classes"] = {"items": [a_class()], "next": None}
    server.routes[f"PATCH priority-classes/{CLASS}"] = a_class(is_retired=True)
    assert server.run("policy", "set-class", "critical", "is_retired=yes").exit_code == 0
    assert server.body() == {"is_retired": True}
    server.routes[f"DELETE priority-classes/{CLASS}"] = [
        {},
        a_problem(409, detail="Jobs use or used the class critical."),
    ]
    ran = server.run("policy", "remove-class", "critical")
    assert (ran.exit_code, ran.err) == (0, "Removed critical of ai-company.\n")
    assert server.requests[-1].headers["If-Match"] == '"v2"'
    ran = server.run("policy", "remove-class", "critical", "--if-match", "1")
    assert (ran.exit_code, "Jobs use or used" in ran.err) == (3, True)
    assert server.requests[-1].headers["If-Match"] == '"v1"'


def test_a_retired_class_says_so_in_the_list(server: Server) -> None:
    server.routes["GET priority-classes"] = {"items": [a_class(is_retired=True)], "next": None}
    assert "(retired) production inference" in server.run("policy", "classes").out


def test_the_rules_about_a_second_person_are_shown_and_changed(server: Server) -> None:
    """GPUs are sent as milli-GPUs, and `none` as null. A setting is shown as it is typed.

    Planted: `none` is sent as text; the name of the API is shown.
    """
    path = f"organizations/{ORGANIZATION}/second-person"
    rules = {"stopped_jobs_min": None, "moved_mgpu_max": 16_000, "guards_rules": True, "version": 3}
    server.routes[f"GET {path}"] = server.routes[f"PATCH {path}"] = rules
    assert server.run("policy", "second-person", "ai-company").out.splitlines()[:3] == [
        "stopped_jobs_min  none",
        "moved_gpus        16 GPUs",
        "guards_rules      yes",
    ]
    settings = ("stopped_jobs_min=none", "moved_gpus=0.5", "allows_emergency=no")
    server.run("policy", "second-person", "ai-company", *settings)
    sent = server.requests[-1]
    assert json.loads(sent.content) == {
        "stopped_jobs_min": None,
        "moved_mgpu_max": 500,
        "allows_emergency": False,
    }
    assert sent.headers["If-Match"] == '"v3"'


def test_a_change_that_waits_for_a_second_person_exits_with_75(server: Server) -> None:
    """Planted: the 202 is printed as a policy."""
    server.routes[f"GET {PATH}"] = POLICY
    server.routes[f"PATCH {PATH}"] = httpx.Response(
        202,
        json={
            "request": "0197a000-0000-7000-8000-0000abcd0007",
            "url": "/api/v1/requests/0197a000-0000-7000-8000-0000abcd0007",
            "detail": "It changes the policy, so it waits for a second person.",
        },
    )
    done = server.run("policy", "set", "min_run_s=7s", "--organization", "ai-company")
    assert (done.exit_code, done.out) == (75, "")
    assert "It changes the policy, so it waits for a second person." in done.err
    assert "tidegate requests show abcd0007" in done.err
