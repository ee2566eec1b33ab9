"""`tidegate notify webhooks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

HOOK = {
    "id": "01935000-0000-7000-8000-00000000e001",
    "node": "ai-company/research/nlp",
    "name": "chat",
    "kind": "slack",
    "address": "https://hooks.example.org/…ET42",
    "events": ["job_failed"],
    "failing_since": None,
    "disabled_at": None,
    "version": 4,
    "secret": "",
}
OTHER = {**HOOK, "id": "01935000-0000-7000-8000-00000000e002", "name": "mine", "node": None}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET webhooks"] = {"items": [HOOK, OTHER], "next": None}
    return server


def test_webhooks_are_listed(server: Server) -> None:
    out = server.run("notify", "webhooks", "list").out.splitlines()
    assert [line.split()[:3] for line in out] == [
        ["NAME", "NODE", "KIND"],
        ["chat", "ai-company/research/nlp", "slack"],
        ["mine", "mine", "slack"],
    ]


def test_a_signed_webhook_prints_its_secret_once(server: Server) -> None:
    server.routes["POST webhooks"] = {**HOOK, "secret": "whsec_abc"}
    ran = server.run(
        *("notify", "webhooks", "add", "chat", "https://h.example.org/x"),
        *("--event", "job_failed", "--event", "job_held", "--node", "nlp"),
    )
    assert "Secret   whsec_abc" in ran.out
    assert ran.err == "Store the secret now; it is not shown again.\n"
    assert server.body() == {
        "name": "chat",
        "url": "https://h.example.org/x",
        "kind": "signed",
        "events": ["job_failed", "job_held"],
        "node": "nlp",
    }
    assert server.requests[0].headers["Idempotency-Key"]


@pytest.mark.parametrize(
    ("words", "sent", "body"),
    [
        (["set", "chat", "--disable"], f"PATCH webhooks/{HOOK['id']}", {"is_enabled": False}),
        (["rotate", "chat"], f"POST webhooks/{HOOK['id']}/secret", {}),
        (["test", "mine"], f"POST webhooks/{OTHER['id']}/test", {}),
    ],
)
def test_a_webhook_is_found_by_its_name(
    server: Server, words: list[str], sent: str, body: dict[str, Any]
) -> None:
    server.routes[sent] = HOOK
    assert server.run("notify", "webhooks", *words).exit_code == 0
    assert server.sent[-1] == sent
    assert server.body() == body


def test_an_unknown_name_lists_the_others(server: Server) -> None:
    ran = server.run("notify", "webhooks", "remove", "nothing")
    assert ran.exit_code == 2
    assert "0 webhooks match 'nothing'. There are: chat, mine." in ran.err
    assert not [sent for sent in server.sent if sent.startswith("DELETE")]
