"""`tidegate audit`."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli_server import Server, a_problem, a_server

EVENT = {
    "at": "2026-11-21T12:00:00Z",
    "actor": "alice@ai-company",
    "action": "team_created",
    "subject": {"kind": "team", "id": "42"},
    "node": "ai-company/nlp",
    "detail": {"slug": "nlp"},
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_events_are_listed_as_they_were_filtered(server: Server) -> None:
    """Against: the object sent as one word, which the API knows nothing of."""
    server.routes["GET audit-events"] = {"items": [EVENT], "next": None}
    ran = server.run("audit", "--object", "team/42", "--since", "2026-11-01", "--actor", "alice")
    assert ran.out.splitlines()[1].split("  ") == [
        "2026-11-21T12:00:00Z",
        "alice@ai-company",
        "team_created",
        "team/42",
        "ai-company/nlp",
        '{"slug": "nlp"}',
    ]
    (request,) = server.requests
    assert dict(request.url.params) == {
        "actor": "alice",
        "subject_kind": "team",
        "subject_id": "42",
        "since": "2026-11-01T00:00:00Z",
        "limit": "50",
    }


def test_what_is_no_object_is_refused_before_anything_is_asked(server: Server) -> None:
    ran = server.run("audit", "--object", "/42")
    assert (ran.exit_code, server.requests) == (2, [])
    assert "--object takes a kind, or a kind and an id: team, or team/ID." in ran.err


@pytest.mark.parametrize("how", [["--csv"], []])
def test_a_refusal_is_no_empty_log(server: Server, how: list[str]) -> None:
    server.routes["GET audit-events"] = a_problem(403, title="You may not do this")
    ran = server.run("audit", *how)
    assert (ran.exit_code, ran.out) == (3, "")
    assert ran.err == "Error: You may not do this: It is refused.\n"
