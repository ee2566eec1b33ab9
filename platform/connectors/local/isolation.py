"""The possible isolation of jobs from this machine, from the portal and from each other."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from connectors.local.limits import usable_cgroups

_PROBE = str(Path(__file__).with_name("probe.py"))
_PROBE_TIMEOUT_S = 20
#: Folders that every job sees read only under their own names: programs, libraries and settings.
SYSTEM = ("/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sbin", "/usr")
#: Paths that every job has privately, or not at all: `sandbox` makes them.
PRIVATE = ("/", "/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp")  # noqa: S108


class Level(StrEnum):
    """The level of isolation, strongest first.

    FULL has a UNIX user per person and namespaces. NAMESPACES and USERS have one of the two, and
    NONE has neither.
    """

    FULL = "full"
    NAMESPACES = "namespaces"
    USERS = "users"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The possible isolation here. `why` says what prevents more; `cgroups` is "" without them."""

    level: Level
    why: str = ""
    cgroups: str = ""

    @property
    def has_users(self) -> bool:
        """Return whether the jobs of each person run as a user of their own."""
        return self.level in (Level.FULL, Level.USERS)

    @property
    def has_namespaces(self) -> bool:
        """Return whether jobs see neither the portal's folders nor other processes."""
        return self.level in (Level.FULL, Level.NAMESPACES)


UNISOLATED = Isolation(Level.NONE, "the option isolation of this cluster is off")


@functools.cache
def isolation_here(uid: int) -> Isolation:
    """Return the isolation that this process can provide.

    It is tried once with user `uid`, which takes about 0.1 s.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and script
            [sys.executable, "-I", "-S", _PROBE, str(uid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
            cwd="/",
            env={"LANG": "C.UTF-8"},
        )
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Isolation(Level.NONE, f"it could not be tried: {error}")
    no_users, no_namespaces = str(found["no_users"]), str(found["no_namespaces"])
    if not no_users:
        level = Level.USERS if no_namespaces else Level.FULL
    else:
        level = Level.NONE if no_namespaces else Level.NAMESPACES
    why = "; ".join(reason for reason in (no_users, no_namespaces) if reason)
    return Isolation(level, why, usable_cgroups() if os.geteuid() == 0 else "")


def described(level: str, why: str) -> str:
    """Return one or two sentences for people on what jobs can and cannot do at this level."""
    match level:
        case Level.FULL:
            return (
                "Jobs are isolated: each person's run as a user of their own, and see neither the "
                "portal's folders nor other jobs."
            )
        case Level.NAMESPACES:
            return (
                "Jobs see neither the portal's folders nor other jobs, but all run as the portal's "
                f"own user ({why})."
            )
        case Level.USERS:
            return (
                "Each person's jobs run as a user of their own, but see other processes and "
                f"folders of this machine ({why})."
            )
        case Level.NONE:
            return (
                f"Jobs are not isolated ({why}): they run as the portal's own user and can read "
                "its settings."
            )
    return ""


def python_folders() -> list[str]:
    """Return the folders of our interpreter, packages and source: jobs may call `tidegate`."""
    found = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])]
    real = [os.path.realpath(path) for path in found]
    # Folders below SYSTEM are visible anyway, for example those of an installation in /usr.
    return [path for path in dict.fromkeys(real) if not is_below(path, SYSTEM)]


def is_below(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether `path` is one of `folders` or lies below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


if __name__ == "__main__":
    here = isolation_here(int(sys.argv[1].partition("-")[0]))
    print(described(here.level, here.why))
    if here.level != Level.NONE and not here.cgroups:
        print("Their memory and CPU are not bounded: that takes root, and cgroups of version 2.")
