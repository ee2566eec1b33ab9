"""`tidegate identity`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_problem, a_server, tagged

ID = "01a1fd00-0000-7000-8000-000000000013"
BASE = f"organizations/{ID}"
PROVIDER = {
    "organization": "ai-company",
    "name": "Company login",
    "issuer": "https://login.example.org",
    "client_id": "tidegate",
    "scopes": ["openid", "email"],
    "groups_claim": "groups",
    "creates_people": True,
    "links_by_email": False,
    "is_enabled": True,
    "is_listed": False,
    "allows_passwords": True,
    "callback_url": "https://tidegate.example/api/v1/session/callback/ai-company",
    "version": 3,
    "changed_at": "2026-11-21T12:00:00Z",
}
MAPPING = {"id": ID, "group": "gpu-nlp", "role": "researcher", "node": "ai-company/nlp"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET organizations"] = {"items": [{"id": ID, "slug": "ai-company"}], "next": None}
    server.routes[f"GET {BASE}/identity-provider"] = tagged(PROVIDER)
    server.routes[f"PUT {BASE}/identity-provider"] = PROVIDER
    server.routes[f"GET {BASE}/group-mappings"] = {"items": [MAPPING], "next": None}
    return server


def test_the_provider_and_its_groups_are_shown(server: Server) -> None:
    """Against: a list without the ids that `unmap` needs."""
    ran = server.run("identity", "show")
    assert ran.exit_code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["Issuer", "https://login.example.org"] in lines
    assert ["Passwords", "on"] in lines
    assert lines[-1] == ["gpu-nlp", "researcher", "ai-company/nlp", ID]


def test_a_change_names_its_version_and_keeps_the_rest(server: Server) -> None:
    """Against: a change of one choice that resets the others, or the secret."""
    ran = server.run("identity", "set", "--no-passwords", "--list")
    assert ran.exit_code == 0
    sent = server.body()
    assert server.requests[-1].headers["If-Match"] == '"v3"'
    assert sent == {
        "name": "Company login",
        "issuer": "https://login.example.org",
        "client_id": "tidegate",
        "scopes": ["openid", "email"],
        "groups_claim": "groups",
        "creates_people": True,
        "links_by_email": False,
        "is_enabled": True,
        "is_listed": True,
        "allows_passwords": False,
    }


def test_a_first_provider_takes_its_secret_from_input_only(server: Server) -> None:
    """Against: a secret on the command line, where other users see it."""
    server.routes[f"GET {BASE}/identity-provider"] = a_problem(404)
    asked = ("identity", "set", "--name", "Login", "--issuer", "https://a.example", "--client-id")
    assert server.run(*asked, "t", "--secret", "visible").exit_code == 2
    assert server.run("identity", "set", "--name", "Login").err == (
        "Error: A new identity provider needs --name, --issuer and --client-id.\n"
    )
    ran = server.run(*asked, "t", "--secret", "-", stdin="from input\n")
    assert ran.exit_code == 0
    assert server.body()["client_secret"] == "from input"
    assert "If-Match" not in server.requests[-1].headers


def test_groups_are_mapped_and_unmapped(server: Server) -> None:
    """Against: a mapping that a repeated request makes twice."""
    server.routes[f"POST {BASE}/group-mappings"] = httpx.Response(201, json=MAPPING)
    server.routes[f"DELETE group-mappings/{ID}"] = httpx.Response(204)
    ran = server.run("identity", "map", "gpu-nlp", "researcher", "ai-company/nlp")
    assert ran.err == "The group gpu-nlp gives researcher on ai-company/nlp.\n"
    assert server.requests[-1].headers["Idempotency-Key"]
    assert server.run("identity", "unmap", ID).exit_code == 0
    assert server.sent[-1] == f"DELETE group-mappings/{ID}"


def test_a_failed_test_of_the_provider_fails_the_command(server: Server) -> None:
    """Against: a script that goes on."""
    found: dict[str, Any] = {
        "problems": ["The provider cannot be reached."],
        "authorization_endpoint": None,
        "token_endpoint": None,
        "userinfo_endpoint": None,
    }
    server.routes[f"POST {BASE}/identity-provider/test"] = found
    ran = server.run("identity", "test")
    assert (ran.exit_code, ran.err) == (2, "Error: The provider cannot be reached.\n")
    server.routes[f"POST {BASE}/identity-provider/test"] = {**found, "problems": []}
    assert server.run("identity", "test").exit_code == 0
