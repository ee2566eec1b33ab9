"""Makes the bed a cluster of the Tidegate that runs here: `make slurm-bed-join`, as root.

    .venv/bin/python deploy/slurm-bed/join.py [--name NAME] [--settle-s SECONDS]

Starts the minter, adds the cluster (or gives it the bed's options anew), maps everybody of the
example company who has a user on the bed (ana is tg-ana), and pushes the quotas there. It may be
called again at any time. Tidegate is found as `make up` leaves it, by TIDEGATE_STATE_DIR and
TIDEGATE_PORT; the bed by TIDEGATE_SLURM_BED.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import httpx

REPO = Path(__file__).resolve().parents[2]
USER_PREFIX = "tg-"
WITHIN_S = 120
_CALL_S = 30
_PAGE = 500


def main() -> None:
    """Join, telling each step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--name", default="slurm", help="what the cluster is called (slurm)")
    parser.add_argument("--settle-s", type=int, default=7, help="7 is strict, 0 is fast")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        complain("must run as root: the key of the bed's tokens is root's.")
    folder = Path(os.environ.get("TIDEGATE_SLURM_BED") or _default_folder())
    state = Path(os.environ.get("TIDEGATE_STATE_DIR") or REPO / "var").resolve()
    bed = read(folder / "bed.json", "no bed runs there: `make slurm-bed` starts one")
    demo = read(state / "demo.json", "no Tidegate was started there: `make up` starts one")
    people = {persona["login"]: persona["token"] for persona in demo["personas"]}
    if "admin" not in people:
        complain(f"{state / 'demo.json'} has no token of the administrator.")
    minter = start_minter(folder, bed, state)
    port = os.environ.get("TIDEGATE_PORT", "8000")
    portal = Portal(f"http://127.0.0.1:{port}", people["admin"])
    cluster = portal.join(
        arguments.name,
        {
            "url": bed["url"],
            "cluster_name": bed["cluster"],
            "service_user": bed["service_user"],
            "token_socket": str(minter),
            "tag_secret_file": str(tag_secret(state)),
            "pools": portal.pools_of(bed),
            "output_root": bed["output_root"],
            "working_directory": bed["working_directory"],
            "settle_s": arguments.settle_s,
        },
    )
    for login in people:
        name = USER_PREFIX + login.partition("@")[0]
        if "@" in login and name in bed["users"]:
            portal.call("PUT", f"clusters/{cluster}/users", {"user": login, "name": name})
            say(f"{login} is {name} there")
    seen = until(lambda: portal.seen(cluster), "the cluster has not answered yet")
    pools = ", ".join(f"{one['healthy_mgpu'] // 1000} {one['pool']}" for one in seen["pools"])
    say(f"{arguments.name} answers ({seen['api_version']}): {pools}")
    say(f"quotas: {portal.push_quotas(cluster)} changes made")


class Portal:
    """Tidegate's REST API, as its administrator."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._http = httpx.Client(
            base_url=f"{address}/api/v1/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=_CALL_S,
            trust_env=False,
        )

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to a request; a refusal ends the script."""
        try:
            response = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            complain(
                f"Tidegate does not answer at {self._address} ({error}): is `make up` running?"
            )
        if not response.is_success:
            complain(f"{method} {path}: {response.status_code} {response.text}")
        return response.json()

    def pools_of(self, bed: dict[str, Any]) -> dict[str, Any]:
        """The bed's partitions that Tidegate has a pool for, as options of a cluster."""
        known = {pool["name"] for pool in self.call("GET", f"pools?limit={_PAGE}")["items"]}
        return {
            name: {"partition": name, "gres_type": partition["gres_type"]}
            for name, partition in bed["partitions"].items()
            if name in known
        }

    def join(self, name: str, options: dict[str, Any]) -> str:
        """The id of the cluster `name`, which now has these options."""
        for cluster in self.call("GET", f"clusters?limit={_PAGE}")["items"]:
            if cluster["name"] == name:
                self.call("PATCH", f"clusters/{cluster['id']}", {"options": options})
                say(f"cluster {name}: options replaced")
                return str(cluster["id"])
        body = {"name": name, "kind": "slurm", "options": options}
        cluster = self.call("POST", "clusters", body)
        say(f"cluster {name}: added")
        return str(cluster["id"])

    def seen(self, cluster: str) -> Any:
        """The cluster, once it has answered."""
        found = self.call("GET", f"clusters/{cluster}")
        return found if found["seen_at"] and found["pools"] else None

    def push_quotas(self, cluster: str) -> int:
        """Make accounts, members and limits on the cluster as the quotas say; how many changes."""
        path = f"clusters/{cluster}/quota-pushes"
        push = self.call("POST", path, {"kind": "push"})

        def is_over() -> Any:
            found = self.call("GET", f"{path}/{push['id']}")
            return found if found["status"] != "waiting" else None

        done = until(is_over, "the quotas are not pushed yet")
        if done["status"] != "done":
            complain(f"the quotas could not be pushed: {done['error']}")
        return int(done["change_count"])


def start_minter(folder: Path, bed: dict[str, Any], state: Path) -> Path:
    """The socket of a minter that gives tokens of the bed's users to Tidegate's processes.

    It is where `make up` lets Tidegate ask for them.
    """
    owner = state.stat().st_uid
    path = state / "slurm-minter.sock"
    if _answers(path):
        say("minter: runs already")
        return path
    users = folder / "run" / "minter-users"
    users.write_text("".join(f"{user}\n" for user in bed["users"]))
    command = [
        *(str(REPO / ".venv/bin/python"), "-m", "connectors.slurm.minter"),
        *("--key", bed["jwt_key_file"], "--socket", str(path), "--users-file", str(users)),
        *("--allow-uid", str(owner), "--service-user", bed["service_user"]),
    ]
    with (folder / "log" / "minter.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd="/",
            # stop.sh knows by the mark that it is the bed's.
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(REPO / "platform"),
                "TIDEGATE_BED_OF": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / "run" / "minter.pid").write_text(f"{process.pid}\n")
    until(
        lambda: _answers(path) or process.poll() is not None,
        f"the minter does not listen: see {folder / 'log' / 'minter.log'}",
    )
    if process.poll() is not None:
        complain(f"the minter ended again: see {folder / 'log' / 'minter.log'}")
    process.returncode = 0  # it stays; nobody is to wait for it
    say(f"minter: started, tokens for the processes of uid {owner}")
    return path


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(_CALL_S)
        try:
            peer.connect(str(path))
        except OSError:
            return False
        return True


def tag_secret(state: Path) -> Path:
    """The file with the secret that signs this Tidegate's jobs; made once, its owner's alone."""
    path = state / "slurm-tag-secret"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        owner = state.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
    return path


def until(look: Callable[[], Any], otherwise: str) -> Any:
    """The first result of `look` that is true; ends the script after WITHIN_S."""
    deadline = time.monotonic() + WITHIN_S
    while not (found := look()):
        if time.monotonic() > deadline:
            complain(f"{otherwise}, after {WITHIN_S} s.")
        time.sleep(0.25)
    return found


def read(path: Path, otherwise: str) -> Any:
    """The JSON in `path`."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        complain(f"there is no {path}: {otherwise}.")


def _default_folder() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp") / "tidegate-slurm-bed"  # noqa: S108 - as the bed


def say(text: str) -> None:
    """A line for the one who looks on."""
    print(f"Slurm bed: {text}", flush=True)


def complain(text: str) -> NoReturn:
    """End with a sentence."""
    print(f"Slurm bed: {text}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
