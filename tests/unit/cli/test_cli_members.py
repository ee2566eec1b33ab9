"""`tidegate members`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

NODE = "0197a000-0000-7000-8000-000000000005"
GRANT = "0197a000-0000-7000-8000-000000000009"
NLP = "ai-company/research/nlp"


def a_role(**changes: Any) -> dict[str, Any]:
    return {
        "id": GRANT,
        "user": "ana@ai-company",
        "role": "researcher",
        "node": NLP,
        "expires_at": None,
        "version": 3,
        **changes,
    }


def a_member(**changes: Any) -> dict[str, Any]:
    return {
        "user": {"login": "ana@ai-company"},
        "source": "here",
        "roles": [
            a_role(expires_at="2026-12-31T23:00:00Z"),
            a_role(role="auditor", node="ai-company"),
        ],
        "use": [{"pool": "h100", "guaranteed_mgpu": 8_000, "borrowed_mgpu": 2_000}],
        "month_mgpu_s": 3_600_000,
        "last_active_at": None,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET teams"] = {"items": [{"id": NODE, "path": NLP}], "next": None}
    server.routes["GET role-grants"] = {"items": [a_role()], "next": None}
    server.routes[f"GET tree/{NODE}/members"] = {"items": [a_member()], "next": None}
    server.routes[f"GET tree/{NODE}/member-totals"] = {
        "pools": [{"pool": "h100", "people_mgpu": 10_000, "service_accounts_mgpu": 0}],
        "people_month_mgpu_s": 3_600_000,
        "service_accounts_month_mgpu_s": 0,
        "is_equal": True,
    }
    return server


def test_members_are_listed_with_roles_use_and_the_check(server: Server) -> None:
    """Roles of other nodes carry these. Against: the borrowed part beside the use, not in it."""
    shown = server.run("members", "list", "nlp")
    header, line = (" ".join(each.split()) for each in shown.out.splitlines())
    assert header == "LOGIN ROLE LAST DAY LAST ACTIVE IN USE BORROWED GPU-H"
    assert line == ("ana@ai-company researcher, auditor in ai-company 2026-12-31 never 10 2 1.000")
    assert shown.err.strip() == (
        "In use: 10 of h100. This month: 1.000 GPU-h. "
        "It equals the usage of ai-company/research/nlp."
    )


def test_a_role_is_given_until_the_end_of_a_day(server: Server) -> None:
    """In UTC. Planted: the midnight that begins the day."""
    server.routes["POST role-grants"] = a_role(expires_at="2027-01-01T00:00:00Z")
    shown = server.run("members", "add", "nlp", "ana@ai-company", "--expires", "2026-12-31")
    assert json.loads(server.requests[-1].content) == {
        "user": "ana@ai-company",
        "role": "researcher",
        "node": NLP,
        "expires_at": "2027-01-01T00:00:00Z",
    }
    assert "ana@ai-company is researcher in ai-company/research/nlp until 2027" in shown.err
    server.run("members", "add", "nlp", "ana@ai-company", "--expires", "2026-12-31T09:00:00Z")
    assert json.loads(server.requests[-1].content)["expires_at"] == "2026-12-31T09:00:00Z"
    refused = server.run("members", "add", "nlp", "ana@ai-company", "--expires", "9999-12-31")
    assert "--expires 9999-12-31: give an earlier day." in refused.err


def test_a_list_shows_the_last_day_that_was_given(server: Server) -> None:
    """Planted: the day of the midnight that ends it."""
    ending = a_member(roles=[a_role(expires_at="2027-01-01T00:00:00Z")])
    server.routes[f"GET tree/{NODE}/members"] = {"items": [ending], "next": None}
    assert "2026-12-31" in server.run("members", "list", "nlp").out


def test_a_node_without_members_has_no_table(server: Server) -> None:
    """Against: a header alone."""
    server.routes[f"GET tree/{NODE}/members"] = {"items": [], "next": None}
    shown = server.run("members", "list", "nlp")
    assert (shown.exit_code, shown.out, shown.err) == (0, "", "No members.\n")


def test_a_role_is_changed_and_its_expiry_lifted(server: Server) -> None:
    """Only what is given is sent. Against: `never` sent as an expiry."""
    server.routes[f"PATCH role-grants/{GRANT}"] = a_role(role="team_lead")
    server.run("members", "set", "nlp", "ana@ai-company", "--expires", "never")
    sent = server.requests[-1]
    assert (json.loads(sent.content), sent.headers["if-match"]) == ({"expires_at": None}, '"v3"')
    server.run("members", "set", "nlp", "ana@ai-company", "--role", "team_lead")
    assert json.loads(server.requests[-1].content) == {"role": "team_lead"}
    refused = server.run("members", "set", "nlp", "ana@ai-company")
    assert "Nothing to change: give --role or --expires." in refused.err


def test_a_role_of_several_is_named(server: Server) -> None:
    """Against: the first of them removed."""
    server.routes["GET role-grants"] = {"items": [a_role(), a_role(role="auditor")], "next": None}
    refused = server.run("members", "remove", "nlp", "ana@ai-company")
    assert "Name one with --of." in refused.err
    assert all(request.method == "GET" for request in server.requests)


def test_a_role_is_removed(server: Server) -> None:
    """Against: no word about jobs."""
    server.routes[f"DELETE role-grants/{GRANT}"] = {}
    shown = server.run("members", "remove", "nlp", "ana@ai-company")
    assert server.requests[-1].method == "DELETE"
    assert shown.err.strip() == (
        "ana@ai-company is no longer researcher in ai-company/research/nlp. "
        "Jobs that run or wait go on."
    )


def test_roles_are_explained(server: Server) -> None:
    """Against: names alone."""
    server.routes["GET roles"] = {
        "items": [{"role": "researcher", "sentence": "Submits jobs.", "permissions": []}],
        "next": None,
    }
    assert server.run("members", "roles").out.splitlines() == [
        "ROLE        MAY",
        "researcher  Submits jobs.",
    ]


def test_a_person_is_invited_and_the_link_printed_once(server: Server) -> None:
    """Against: the link on the error stream, where a script loses it."""
    sent = {
        "id": GRANT,
        "email": "eve@example.org",
        "expires_at": "2026-12-06T12:00:00Z",
        "is_mailed": False,
        "link": "/set-password#tdi_x",
    }
    server.routes[f"POST tree/{NODE}/invitations"] = sent
    shown = server.run("members", "invite", "nlp", "eve@example.org", "--name", "Eve")
    assert shown.out.strip().endswith("/set-password#tdi_x")
    assert "It is not shown again" in shown.err
    assert json.loads(server.requests[-1].content)["name"] == "Eve"
    server.routes[f"GET tree/{NODE}/invitations"] = {"items": [sent], "next": None}
    server.routes[f"POST invitations/{GRANT}/resend"] = {**sent, "is_mailed": True, "link": None}
    again = server.run("members", "resend", "nlp", "eve@example.org")
    assert again.err.strip() == "The invitation was mailed to eve@example.org."
    server.routes[f"DELETE invitations/{GRANT}"] = {}
    gone = server.run("members", "withdraw", "nlp", "eve@example.org")
    assert gone.err.strip() == "The invitation of eve@example.org is withdrawn."
    refused = server.run("members", "withdraw", "nlp", "bob@example.org")
    assert "bob@example.org has no open invitation there" in refused.err
