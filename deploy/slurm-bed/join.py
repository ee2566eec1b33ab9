"""Makes the bed a cluster of the Tidegate that runs here: `make slurm-bed-join`, as root.

    .venv/bin/python deploy/slurm-bed/join.py [--name NAME] [--settle-s SECONDS]

Starts the minter, adds the cluster (or gives it the bed's options anew), maps everybody of the
example company who has a user on the bed (ana is tg-ana), and pushes the quotas there. It may be
called again at any time. Tidegate is found as `make up` leaves it, by TIDEGATE_STATE_DIR, and
the bed by TIDEGATE_SLURM_BED.
"""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from joining import REPO, Portal, Talk, state_folder

TALK = Talk("Slurm bed")
USER_PREFIX = "tg-"
_CALL_S = 30


def main() -> None:
    """Join, telling each step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--name", default="slurm", help="what the cluster is called (slurm)")
    parser.add_argument("--settle-s", type=int, default=7, help="7 is strict, 0 is fast")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        TALK.complain("must run as root: the key of the bed's tokens is root's.")
    folder = Path(os.environ.get("TIDEGATE_SLURM_BED") or _default_folder())
    bed = TALK.read(folder / "bed.json", "no bed runs there: `make slurm-bed` starts one")
    portal, state = Portal(TALK), state_folder()
    minter = start_minter(folder, bed, state)
    cluster = portal.join(
        arguments.name,
        "slurm",
        {
            "url": bed["url"],
            "cluster_name": bed["cluster"],
            "service_user": bed["service_user"],
            "token_socket": str(minter),
            "tag_secret_file": str(tag_secret(state)),
            "pools": pools_of(bed, portal.pools()),
            "output_root": bed["output_root"],
            "working_directory": bed["working_directory"],
            "settle_s": arguments.settle_s,
        },
    )
    for login in portal.people:
        name = USER_PREFIX + login.partition("@")[0]
        if "@" in login and name in bed["users"]:
            portal.call("PUT", f"clusters/{cluster}/users", {"user": login, "name": name})
            TALK.say(f"{login} is {name} there")
    portal.wait_seen(cluster)
    portal.push_quotas(cluster)


def pools_of(bed: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The bed's partitions that Tidegate has a pool for, as options of a cluster."""
    return {
        name: {"partition": name, "gres_type": partition["gres_type"]}
        for name, partition in bed["partitions"].items()
        if name in known
    }


def start_minter(folder: Path, bed: dict[str, Any], state: Path) -> Path:
    """The socket of a minter that gives tokens of the bed's users to Tidegate's processes.

    It is where `make up` lets Tidegate ask for them.
    """
    owner = state.stat().st_uid
    path = state / "slurm-minter.sock"
    if _answers(path):
        TALK.say("minter: runs already")
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
    TALK.until(
        lambda: _answers(path) or process.poll() is not None,
        f"the minter does not listen: see {folder / 'log' / 'minter.log'}",
    )
    if process.poll() is not None:
        TALK.complain(f"the minter ended again: see {folder / 'log' / 'minter.log'}")
    process.returncode = 0  # it stays; nobody is to wait for it
    TALK.say(f"minter: started, tokens for the processes of uid {owner}")
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


def _default_folder() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp") / "tidegate-slurm-bed"  # noqa: S108 - as the bed


if __name__ == "__main__":
    main()
