"""A server that is a function, for the command line: answers by route, remembers requests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from builders.declared_requests import require_declared
from builders.stored_members import STORED
from cli import api
from cli.main import app

SECRET = "tdg_" + "a" * 36
JOB_ID = "01a1fd00-0000-7000-8000-000000000001"
TEAM = "ai-company/research/nlp"

Answer = httpx.Response | Exception | dict[str, Any]


def a_shown_job(**changes: Any) -> dict[str, Any]:
    """A job as the API shows it: queued, of bob."""
    return {
        "id": JOB_ID,
        "name": "bert",
        "type": "training",
        "origin": "portal",
        "team": "ai-company/research/nlp",
        "user": "bob",
        "organization": "ai-company",
        "pool": "h100",
        "pools": ["h100"],
        "state": "queued",
        "priority_class": "normal",
        "mgpu_per_node": 8_000,
        "node_count": 2,
        "node_count_min": 2,
        "mgpu": 16_000,
        "mgpu_min": 16_000,
        **STORED,
        "time_limit_s": 3_600,
        "cluster": None,
        "device": "gpu",
        "array": None,
        "depends_on": [],
        "schedule": None,
        "submitted_at": "2026-11-21T12:00:00Z",
        "started_at": None,
        "ended_at": None,
        "end_reason": None,
        "exit_code": None,
        "exit_code_meaning": None,
        "attempt": 0,
        "current_attempt": None,
        "notice_handling": None,
        "explanation": None,
        "usage": {"guaranteed_mgpu_s": 0, "borrowed_mgpu_s": 0},
        "can": ["cancel"],
        "notes": [],
        **changes,
    }


def a_log_piece(text: str = "", *, offset: int = 0, **changes: Any) -> dict[str, Any]:
    """A piece of rank 0's standard output."""
    return {
        "attempt": 1,
        "rank": 0,
        "stream": "stdout",
        "offset": offset,
        "next_offset": offset + len(text.encode()),
        "text": text,
        "is_final": False,
        "is_truncated": False,
        "ranks": 1,
        **changes,
    }


def a_problem(status: int, **changes: Any) -> httpx.Response:
    """A problem document."""
    body = {
        "type": "urn:tidegate:problem:test",
        "title": "No",
        "status": status,
        "detail": "It is refused.",
        "code": "test",
        "request_id": "r1",
        **changes,
    }
    return httpx.Response(status, json=body)


@dataclass
class Ran:
    """How a command ended."""

    exit_code: int
    out: str
    err: str


@dataclass
class Server:
    """`routes["GET jobs"]` is an answer, or a list of them of which the last one stays."""

    routes: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)
    pauses_s: list[float] = field(default_factory=list)

    def handle(self, request: httpx.Request) -> httpx.Response:
        require_declared(request)
        self.requests.append(request)
        path = request.url.path.removeprefix("/api/v1/")
        answer = self.routes.get(f"{request.method} {path}", a_problem(404, detail="Nothing here."))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(200, json=answer) if isinstance(answer, dict) else answer

    def run(self, *arguments: str, stdin: str | None = None) -> Ran:
        """Run `tidegate` with these arguments against this server."""
        result = CliRunner().invoke(
            app, list(arguments), input=stdin, obj=httpx.MockTransport(self.handle)
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    @property
    def sent(self) -> list[str]:
        """Method and path with query of every request."""
        return [
            f"{request.method} {request.url.raw_path.decode().removeprefix('/api/v1/')}"
            for request in self.requests
        ]

    def body(self, number: int = -1) -> Any:
        """The JSON body of a request."""
        return json.loads(self.requests[number].content)


def a_server(monkeypatch: pytest.MonkeyPatch, home: str) -> Server:
    """A server that the environment points to; nothing waits, and `home` is the user's."""
    server = Server()
    for name in ("TIDEGATE_TEAM", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("TIDEGATE_SERVER", "https://tidegate.example")
    monkeypatch.setenv("TIDEGATE_TOKEN", SECRET)
    monkeypatch.setattr(api, "sleep", server.pauses_s.append)
    return server


def created(**changes: Any) -> httpx.Response:
    """The answer to a submission."""
    return httpx.Response(201, json=a_shown_job(**changes))


def tagged(body: dict[str, Any], etag: str = '"v3"') -> httpx.Response:
    """The answer to a read whose change needs `If-Match`."""
    return httpx.Response(200, json=body, headers={"ETag": etag})
