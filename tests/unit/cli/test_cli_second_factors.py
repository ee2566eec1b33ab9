"""`tidegate second-factor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli_server import Server, a_server, tagged

ID = "01a1fd00-0000-7000-8000-000000000021"
FACTORS = {
    "user": "bob@ai-company",
    "authenticator_app": {"id": ID, "created_at": "2026-11-21T08:00:00Z", "last_used_at": None},
    "security_keys": [
        {"id": ID, "name": "blue", "created_at": "2026-11-21T08:00:00Z", "last_used_at": None}
    ],
    "recovery_codes_left": 7,
    "can_enrol": True,
    "is_required": True,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET second-factors"] = FACTORS
    server.routes["GET users"] = {"items": [{"id": ID, "login": "bob@ai-company"}], "next": None}
    server.routes[f"POST users/{ID}/second-factors/reset"] = {"removed": 1}
    server.routes["GET organizations"] = {"items": [{"id": ID, "slug": "ai-company"}], "next": None}
    policy = {"requires_second_factor": False, "version": 4}
    server.routes[f"GET organizations/{ID}/sign-in-policy"] = tagged(policy, '"v4"')
    server.routes[f"PUT organizations/{ID}/sign-in-policy"] = policy
    return server


def test_the_factors_of_a_person_are_shown(server: Server) -> None:
    """Against: the caller's own factors in spite of --user."""
    ran = server.run("second-factor", "show", "--user", "bob@ai-company")
    assert ran.exit_code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["Authenticator", "app", "since", "2026-11-21T08:00:00Z"] in lines
    assert ["Security", "keys", "blue"] in lines
    assert ["Recovery", "codes", "left", "7"] in lines
    assert server.requests[-1].url.params["user"] == "bob@ai-company"


def test_factors_are_reset_by_login(server: Server) -> None:
    ran = server.run("second-factor", "reset", "bob@ai-company")
    assert ran.exit_code == 0
    assert server.sent[-1] == f"POST users/{ID}/second-factors/reset"
    assert server.run("second-factor", "reset", "nobody").exit_code == 2


@pytest.mark.parametrize(("options", "required"), [([], True), (["--off"], False)])
def test_a_requirement_names_its_version(
    server: Server, options: list[str], required: bool
) -> None:
    ran = server.run("second-factor", "require", *options)
    assert ran.exit_code == 0
    assert server.requests[-1].headers["If-Match"] == '"v4"'
    assert server.body() == {"requires_second_factor": required}
