"""What the scripts share that make a bed a cluster of the Tidegate that runs here.

Tidegate is found as `make up` leaves it, by TIDEGATE_STATE_DIR.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import httpx

REPO = Path(__file__).resolve().parents[1]
WITHIN_S = 120
_CALL_S = 30
_PAGE = 500


class Talk:
    """Lines for the one who looks on, each with the name of the bed."""

    def __init__(self, bed: str) -> None:
        self._bed = bed

    def say(self, text: str) -> None:
        """What was done."""
        print(f"{self._bed}: {text}", flush=True)

    def complain(self, text: str) -> NoReturn:
        """End with a sentence."""
        print(f"{self._bed}: {text}", file=sys.stderr)
        raise SystemExit(1)

    def until(self, look: Callable[[], Any], otherwise: str) -> Any:
        """The first result of `look` that is true; ends the script after WITHIN_S."""
        deadline = time.monotonic() + WITHIN_S
        while not (found := look()):
            if time.monotonic() > deadline:
                self.complain(f"{otherwise}, after {WITHIN_S} s.")
            time.sleep(0.25)
        return found

    def read(self, path: Path, otherwise: str) -> Any:
        """The JSON in `path`."""
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            self.complain(f"there is no {path}: {otherwise}.")


def state_folder() -> Path:
    """Where this Tidegate keeps its files."""
    return Path(os.environ.get("TIDEGATE_STATE_DIR") or REPO / "var").resolve()


class Portal:
    """Tidegate's REST API, as its administrator."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        path = state_folder() / "demo.json"
        demo = talk.read(path, "no Tidegate was started there: `make up` starts one")
        self.people = {persona["login"]: persona["token"] for persona in demo["personas"]}
        if "admin" not in self.people:
            talk.complain(f"{path} has no token of the administrator.")
        self._address = demo["address"]
        self._http = httpx.Client(
            base_url=f"{self._address}/api/v1/",
            headers={"Authorization": f"Bearer {self.people['admin']}"},
            timeout=_CALL_S,
            trust_env=False,
        )

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to a request; a refusal ends the script."""
        try:
            response = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            self._talk.complain(
                f"Tidegate does not answer at {self._address} ({error}): is `make up` running?"
            )
        if not response.is_success:
            self._talk.complain(f"{method} {path}: {response.status_code} {response.text}")
        return response.json()

    def pools(self) -> set[str]:
        """The names of the pools that Tidegate has."""
        return {pool["name"] for pool in self.call("GET", f"pools?limit={_PAGE}")["items"]}

    def have_cores(self, pool: str, cores: int) -> None:
        """A pool of CPU cores of this name is there, and each organization has an equal part of
        `cores` in it, unless it has a quota already."""
        there = self.call("GET", f"pools?limit={_PAGE}")["items"]
        device = next((one["device"] for one in there if one["name"] == pool), None)
        if device is None:
            self.call("POST", "pools", {"name": pool, "device": "cpu"})
            self._talk.say(f"pool {pool}: added, of CPU cores")
        elif device != "cpu":
            self._talk.complain(f"the pool {pool} is not of CPU cores: take another name.")
        organizations = self.call("GET", f"organizations?limit={_PAGE}")["items"]
        quotas = self.call("GET", f"quotas?pool={pool}&limit={_PAGE}")["items"]
        for slug in sorted(
            {one["slug"] for one in organizations} - {one["node"] for one in quotas}
        ):
            part = cores // len(organizations)
            body = {"node": slug, "pool": pool, "guaranteed_mgpu": part * 1_000}
            self.call("POST", "quotas", body)
            self._talk.say(f"{slug}: {part} cores of {pool}")

    def join(self, name: str, kind: str, options: dict[str, Any]) -> str:
        """The id of the cluster `name`, which now has these options."""
        for cluster in self.call("GET", f"clusters?limit={_PAGE}")["items"]:
            if cluster["name"] == name:
                if cluster["kind"] != kind:
                    self._talk.complain(
                        f"the cluster {name} is of kind {cluster['kind']}: take another --name."
                    )
                self.call("PATCH", f"clusters/{cluster['id']}", {"options": options})
                self._talk.say(f"cluster {name}: options replaced")
                return str(cluster["id"])
        cluster = self.call("POST", "clusters", {"name": name, "kind": kind, "options": options})
        self._talk.say(f"cluster {name}: added")
        return str(cluster["id"])

    def wait_seen(self, cluster: str) -> None:
        """Wait until the cluster has answered."""

        def look() -> Any:
            found = self.call("GET", f"clusters/{cluster}")
            return found if found["seen_at"] and found["pools"] else None

        seen = self._talk.until(look, "the cluster has not answered yet")
        pools = ", ".join(f"{one['healthy_mgpu'] // 1000} {one['pool']}" for one in seen["pools"])
        self._talk.say(f"{seen['name']} answers ({seen['api_version']}): {pools}")

    def push_quotas(self, cluster: str) -> None:
        """Make on the cluster what the quotas say."""
        path = f"clusters/{cluster}/quota-pushes"
        push = self.call("POST", path, {"kind": "push"})

        def is_over() -> Any:
            found = self.call("GET", f"{path}/{push['id']}")
            return found if found["status"] != "waiting" else None

        done = self._talk.until(is_over, "the quotas are not pushed yet")
        if done["status"] != "done":
            refused = [one for one in done["changes"] if one["result"].startswith("refused")]
            first = "".join(f" {one['subject']}: {one['result']}" for one in refused[:1])
            self._talk.complain(f"the quotas could not be pushed: {done['error']}{first}")
        made = done["change_count"] - sum(one["result"] == "waits" for one in done["changes"])
        self._talk.say(f"quotas: {made} changes made")
        if done["error"]:
            first = next(one["note"] for one in done["changes"] if one["note"])
            self._talk.say(f"{done['error']} The first: {first}")
