"""`tidegate service-accounts`."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from builders.cli_server import Server, a_server

NODE = "0197a000-0000-7000-8000-000000000005"
NLP = "ai-company/research/nlp"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET teams"] = {"items": [{"id": NODE, "path": NLP}], "next": None}
    return server


def test_the_service_accounts_among_the_members_are_listed(server: Server) -> None:
    """With state, roles and tokens. Against: people in the list."""
    person = {"user": {"login": "ana@ai-company", "kind": "person"}, "roles": [], "tokens": []}
    robot = {
        "user": {"login": "ci@ai-company", "kind": "service", "is_active": False},
        "roles": [{"role": "service_account", "node": NLP}],
        "tokens": [{"prefix": "tdg_abc"}],
    }
    server.routes[f"GET tree/{NODE}/members"] = {"items": [person, robot], "next": None}
    shown = server.run("service-accounts", "list", "nlp")
    header, line = (" ".join(each.split()) for each in shown.out.splitlines())
    assert header == "LOGIN STATE ROLE TOKENS"
    assert line == f"ci@ai-company deactivated service_account in {NLP} tdg_abc"


def test_one_is_created_with_the_end_of_its_role(server: Server) -> None:
    """Against: a request that makes two accounts when it is repeated."""
    made = {"user": "ci@ai-company", "role": "service_account", "node": NLP, "expires_at": None}
    server.routes[f"POST tree/{NODE}/service-accounts"] = httpx.Response(201, json=made)
    ran = server.run("service-accounts", "create", "nlp", "ci", "--name", "CI")
    assert ran.err.splitlines() == [
        f"ci@ai-company is service_account in {NLP}.",
        "Give it a token: tidegate token create NAME --scope jobs --user ci@ai-company",
    ]
    assert server.body() == {"username": "ci", "name": "CI", "role_expires_at": None}
    assert "idempotency-key" in server.requests[-1].headers
