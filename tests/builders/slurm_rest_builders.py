"""Exchanges with slurmrestd, recorded and scripted."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from connectors.slurm.neutral import Submission
from connectors.slurm.rest import SlurmRest

FOLDER = Path(__file__).resolve().parent.parent / "recordings" / "slurm"
RECORDINGS = {
    "v0.0.38": "22.05-v0.0.38",
    "v0.0.40": "24.11-v0.0.40",
    "v0.0.41": "25.11-v0.0.41",
    "v0.0.42": "26.05-v0.0.42",
    "v0.0.43": "26.05-v0.0.43",
    "v0.0.44": "25.11-v0.0.44",
    "v0.0.45": "26.05-v0.0.45",
}
STRUCTURED = [version for version in RECORDINGS if version != "v0.0.38"]
NOW = 1_795_242_300
#: What httpx raises where a call may have been carried out, and where it never left.
CLOSED = httpx.RemoteProtocolError("Server disconnected without sending a response.")
FINE = httpx.Response(200, json={"errors": [], "warnings": []})
LOST = [
    httpx.ReadTimeout("late"),
    httpx.WriteTimeout("late"),
    httpx.ReadError("reset"),
    httpx.WriteError("reset"),
    CLOSED,
]
NEVER_SENT = [
    httpx.ConnectError("Connection refused"),
    httpx.ConnectTimeout("late"),
    httpx.PoolTimeout("busy"),
]
PING = {"pings": [{"ping": "UP", "pinged": "UP", "responding": True}], "errors": []}


def recording(name: str) -> list[dict[str, Any]]:
    """Every exchange of one file."""
    exchanges: list[dict[str, Any]] = json.loads(
        gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())
    )
    return exchanges


def recorded(
    version: str, method: str, path: str, *, status: int = 200, at: int = 0
) -> dict[str, Any]:
    """Exchange number `at` of those in which `method` met a path that ends so."""
    return [
        exchange
        for exchange in recording(RECORDINGS.get(version, version))
        if exchange["request"]["method"] == method
        and exchange["request"]["path"].endswith(path)
        and exchange["status"] == status
    ][at]


def a_submission(**changes: Any) -> Submission:
    """Three nodes with two H100s each, held."""
    values: dict[str, Any] = {
        "name": "tg-1-0123456789ab",
        "comment": "tidegate",
        "account": "science",
        "partition": "h100",
        "qos": "g-science",
        "gres_type": "h100",
        "gpus_per_node": 2,
        "node_count": 3,
        "script": "#!/bin/bash\ntrue\n",
        "working_directory": "/home/ana",
        "standard_output": "/out/1.stdout",
        "standard_error": "/out/1.stderr",
        "environment": {"PATH": "/usr/bin:/bin", "A": "b"},
    }
    return Submission(**{**values, **changes})


def an_answer(body: Any, status: int = 200) -> httpx.Response:
    """A response; text stays text."""
    if isinstance(body, str):
        return httpx.Response(status, text=body)
    return httpx.Response(status, json=body)


def an_error(number: int, text: str = "No", **more: Any) -> dict[str, Any]:
    """A body with one error."""
    return {"errors": [{"error_number": number, "error": text}], **more}


class ScriptedCluster(httpx.BaseTransport):
    """Answers each call with the first rule that fits its method and the end of its path. A rule
    is used as often as it has answers; its last one stays. ping and diag answer by themselves."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.requests: list[httpx.Request] = []
        self._rules: list[tuple[str, str, list[Any]]] = []
        self.now = NOW

    def on(self, method: str, path: str, *replies: Any) -> "ScriptedCluster":
        """`replies` are responses, exceptions to raise, or functions of the request."""
        self._rules.append((method, path, list(replies)))
        return self

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        path = request.url.path
        for method, end, replies in self._rules:
            if method == request.method and path.endswith(end):
                reply = replies.pop(0) if len(replies) > 1 else replies[0]
                if isinstance(reply, Exception):
                    raise reply
                if isinstance(reply, Callable):
                    reply = reply(request)
                assert isinstance(reply, httpx.Response)
                return httpx.Response(reply.status_code, content=reply.content)
        if f"/{self.version}/" not in path:
            return an_answer("Unable find requested URL.", 404)
        if path.endswith("/ping"):
            return an_answer(PING)
        if path.endswith("/diag"):
            statistics = {"req_time": self.now, "dbd_agent_queue_size": 0}
            return an_answer({"statistics": statistics, "errors": []})
        raise AssertionError(f"nobody expects {request.method} {path}")

    def seen(self, method: str, path: str) -> list[httpx.Request]:
        """The calls so far of this method to paths that end so."""
        return [
            request
            for request in self.requests
            if request.method == method and request.url.path.endswith(path)
        ]


class PlainTokens:
    """The token of a user is its name."""

    def token_for(self, user: str) -> str:
        return f"token-of-{user}"


def a_client(transport: httpx.BaseTransport, /, **options: Any) -> SlurmRest:
    """A client of the cluster behind `transport` that acts as tidegate."""
    values: dict[str, Any] = {"service_user": "tidegate", "transport": transport}
    return SlurmRest("http://slurm.test", PlainTokens(), **{**values, **options})


def answer_of(version: str, method: str, path: str, **where: Any) -> httpx.Response:
    """A recorded answer; see `recorded`."""
    exchange = recorded(version, method, path, **where)
    return an_answer(exchange["response"], exchange["status"])


def a_job_record(version: str) -> dict[str, Any]:
    """A pending job that is held, with number 1 or more."""
    record: dict[str, Any] = next(
        exchange["response"]["jobs"][0]
        for exchange in recording(RECORDINGS[version])
        if exchange["request"]["method"] == "GET" and "/slurm/" in exchange["request"]["path"]
        if "/job/" in exchange["request"]["path"]
    )
    return record


def raises_exactly(kind: type[Exception], call: Any) -> Exception:
    """The error that `call` raises, which must be of no other kind, derived or not."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.type is kind
    return caught.value
