"""A whole Tidegate for the tests that need one, and callers of its REST API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from builders.connector_builders import eventually

REPO = Path(__file__).resolve().parents[2]
START_WITHIN_S = 240
STOP_WITHIN_S = 120
_JOIN_WITHIN_S = 400
_LOG_BYTES_MAX = 256 << 10
_OPEN_STATES = "held,queued,starting,running,preempting"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Persona:
    """A login of the demo company."""

    persona: str
    login: str
    password: str
    token: str


class Caller:
    """The REST API as one persona uses it."""

    def __init__(self, address: str, token: str) -> None:
        self.http = httpx.Client(
            base_url=f"{address}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
        )

    def get(self, path: str, **parameters: Any) -> Any:
        """The body of a GET that must succeed."""
        return self._body(self.http.get(path, params=parameters))

    def post(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> Any:
        """The body of a POST that must succeed."""
        return self._body(self.http.post(path, json=body or {}, headers=headers))

    @staticmethod
    def _body(response: httpx.Response) -> Any:
        assert response.is_success, f"{response.status_code}: {response.text}"
        return response.json()

    def submit(self, team: str, *, nodes: int, gpus: int, script: str, **values: Any) -> Any:
        """Submit a job of `nodes` nodes with `gpus` GPUs each."""
        body = {"team": team, "nodes": nodes, "gpus_per_node": gpus, "script": script, **values}
        return self.post("/jobs", body)

    def job(self, job_id: str) -> Any:
        """The job as it is now."""
        return self.get(f"/jobs/{job_id}")

    def until(self, job_id: str, *states: str, deadline_s: float = 90) -> Any:
        """The job once it is in one of `states`."""

        def look() -> Any:
            job = self.job(job_id)
            return job if job["state"] in states else None

        def told() -> Any:
            job = self.job(job_id)
            why = ("name", "state", "end_reason", "explanation", "current_attempt")
            return {name: job[name] for name in why}

        return eventually(look, deadline_s=deadline_s, told=told)

    def end_all(self) -> None:
        """Cancel every job that the caller sees, and wait until none is left: what a first try of
        a test began would be in the way of the second."""
        for job in self._open_jobs():
            self.post(f"/jobs/{job['id']}/cancel")
        settle(lambda: not self._open_jobs())

    def _open_jobs(self) -> list[Any]:
        jobs: list[Any] = self.get("/jobs", state=_OPEN_STATES, limit=100)["items"]
        return jobs

    def log(self, job_id: str, attempt: int, rank: int = 0) -> str:
        """Return the output of a rank so far, at most 256 KiB, or an empty text."""
        asked = {"attempt": attempt, "rank": rank, "stream": "stdout", "limit": _LOG_BYTES_MAX}
        response = self.http.get(f"/jobs/{job_id}/logs", params=asked)
        if response.status_code == 404:
            return ""
        text: str = self._body(response)["text"]
        return text

    def use(self, node: str) -> Any:
        """Where a tree node stands in the pool."""
        (item,) = self.get("/quotas", node=node, pool="h100")["items"]
        return item["use"]


class Tidegate:
    """A running installation."""

    def __init__(self, state: Path, port: int) -> None:
        self.state = state
        self.port = port
        self._callers: list[Caller] = []
        self.address = f"http://127.0.0.1:{port}"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TIDEGATE_")},
            "TIDEGATE_STATE_DIR": str(state),
            "TIDEGATE_PORT": str(port),
        }

    def embedded(self, *words: str, timeout_s: float) -> None:
        """Run `python -m embedded WORDS`."""
        done = subprocess.run(
            [sys.executable, "-m", "embedded", *words],
            cwd=REPO,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def manage(self, *words: str) -> str:
        """Output of `manage.py WORDS` as the application's role."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=REPO,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def join(self, script: str, *words: str, **folder: Path) -> str:
        """Make a bed a cluster with its `deploy/*/join.py`, and return what that says.

        `folder` is the bed's folder, under the name of its variable.
        """
        joined = subprocess.run(
            [sys.executable, script, *words],
            cwd=REPO,
            env=self.environment | {name: str(value) for name, value in folder.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_JOIN_WITHIN_S,
        )
        assert joined.returncode == 0, joined.stdout
        return joined.stdout

    def hang_up(self) -> None:
        """Close the connections of all callers."""
        for caller in self._callers:
            caller.http.close()

    @property
    def personas(self) -> dict[str, Persona]:
        """The demo's logins, by login."""
        demo = json.loads((self.state / "demo.json").read_text())
        return {
            item["login"]: Persona(item["persona"], item["login"], item["password"], item["token"])
            for item in demo["personas"]
        }

    def caller(self, login: str) -> Caller:
        """The API as `login`."""
        caller = Caller(self.address, self.personas[login].token)
        self._callers.append(caller)
        return caller

    def caller_in(self, *roles: str) -> Caller:
        """The API as the first persona whose description names one of `roles`."""
        for persona in self.personas.values():
            if any(role in persona.persona for role in roles):
                return self.caller(persona.login)
        raise LookupError(roles)


def settle(look: Callable[[], Found | None], deadline_s: float = 90) -> Found:
    """The first result of `look` that is true; fails the test after `deadline_s`."""
    return eventually(look, deadline_s=deadline_s)
