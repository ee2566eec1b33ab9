"""`sbatch` inside of a batch job, on a cluster without Slurm: submits through the portal."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batch.command_line import Argument, Options, Refused, read_command_line
from batch.portal import Portal

_NONE, _REQUIRED, _OPTIONAL = Argument.NONE, Argument.REQUIRED, Argument.OPTIONAL
_SCRIPT_BYTES_MAX = 1 << 20

_OPTIONS: Options = {
    "account": ("A", _REQUIRED),
    "array": ("a", _REQUIRED),
    "begin": ("b", _REQUIRED),
    "chdir": ("D", _REQUIRED),
    "comment": ("", _REQUIRED),
    "constraint": ("C", _REQUIRED),
    "cpus-per-gpu": ("", _REQUIRED),
    "cpus-per-task": ("c", _REQUIRED),
    "deadline": ("", _REQUIRED),
    "dependency": ("d", _REQUIRED),
    "error": ("e", _REQUIRED),
    "exclude": ("x", _REQUIRED),
    "exclusive": ("", _OPTIONAL),
    "export": ("", _REQUIRED),
    "gpus": ("G", _REQUIRED),
    "gpus-per-node": ("", _REQUIRED),
    "gpus-per-task": ("", _REQUIRED),
    "gres": ("", _REQUIRED),
    "hold": ("H", _NONE),
    "input": ("i", _REQUIRED),
    "job-name": ("J", _REQUIRED),
    "kill-on-invalid-dep": ("", _REQUIRED),
    "mail-type": ("", _REQUIRED),
    "mail-user": ("", _REQUIRED),
    "mem": ("", _REQUIRED),
    "mem-per-cpu": ("", _REQUIRED),
    "mem-per-gpu": ("", _REQUIRED),
    "nice": ("", _OPTIONAL),
    "no-requeue": ("", _NONE),
    "nodelist": ("w", _REQUIRED),
    "nodes": ("N", _REQUIRED),
    "ntasks": ("n", _REQUIRED),
    "ntasks-per-node": ("", _REQUIRED),
    "open-mode": ("", _REQUIRED),
    "output": ("o", _REQUIRED),
    "parsable": ("", _NONE),
    "partition": ("p", _REQUIRED),
    "qos": ("q", _REQUIRED),
    "quiet": ("Q", _NONE),
    "requeue": ("", _NONE),
    "reservation": ("", _REQUIRED),
    "signal": ("", _REQUIRED),
    "tasks-per-node": ("", _REQUIRED),
    "test-only": ("", _NONE),
    "time": ("t", _REQUIRED),
    "time-min": ("", _REQUIRED),
    "verbose": ("v", _NONE),
    "wait": ("W", _NONE),
    "wrap": ("", _REQUIRED),
}
#: They say what `sbatch` itself does, and are not for the job.
_OWN = frozenset({"parsable", "quiet", "test-only", "verbose", "wait", "wrap"})


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Submit the job that `arguments` describe, and print its id as sbatch does."""
    given, words = read_command_line("sbatch", _OPTIONS, arguments)
    given = [
        (name, _with_own_id(value, environment) if name == "dependency" else value)
        for name, value in given
    ]
    options = dict(given)
    if "wait" in options:
        raise Refused("--wait is not offered here; make the next job wait with --dependency.")
    directives = [
        f"#SBATCH --{name}={shlex.quote(value)}" if value else f"#SBATCH --{name}"
        for name, value in given
        if name not in _OWN
    ]
    name = "wrap" if "wrap" in options else "sbatch"
    if words and words[0] != "-":
        name = Path(words[0]).name
    script = with_directives(_script(options, words), directives)
    body: dict[str, Any] = {
        "team": environment.get("TIDEGATE_TEAM", ""),
        "sbatch": script,
        "script_file": name,
    }
    if words[1:]:
        body["arguments"] = words[1:]
    portal = Portal(environment)
    if "test-only" in options:
        plan = portal.post("jobs?dry_run=true", body)
        print(f"sbatch: {plan['message']}", file=sys.stderr)
        return 0
    job = portal.post("jobs", body)
    identity = job["id"] if job["array"] is None else job["array"]["id"]
    if "parsable" in options:
        print(identity)
    elif "quiet" not in options:
        print(f"Submitted batch job {identity}")
    return 0


def _with_own_id(dependency: str, environment: Mapping[str, str]) -> str:
    """Return a dependency with the id of this job in place of its number."""
    number, own = environment.get("SLURM_JOB_ID"), environment.get("TIDEGATE_JOB_ID")
    if not number or not own:
        return dependency
    return re.sub(rf"(?<=:){re.escape(number)}(?![^:,?])", own, dependency)


def with_directives(script: str, directives: Sequence[str]) -> str:
    """Return `script` with `directives` after its own, so that they win as options do."""
    lines = script.splitlines(keepends=True)
    if not lines or not lines[0].startswith("#!"):
        raise Refused("This does not look like a batch script: its first line must begin with #!.")
    at = next(
        (number for number, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"),
        len(lines),
    )
    if at and not lines[at - 1].endswith("\n"):
        lines[at - 1] += "\n"
    return "".join([*lines[:at], *(f"{line}\n" for line in directives), *lines[at:]])


def _script(options: Mapping[str, str], words: Sequence[str]) -> str:
    if "wrap" in options:
        if words:
            raise Refused("give a script or --wrap, not both.")
        return f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{options['wrap']}\n"
    try:
        if not words or words[0] == "-":
            data = sys.stdin.buffer.read(_SCRIPT_BYTES_MAX + 1)
        else:
            with open(words[0], "rb") as file:
                data = file.read(_SCRIPT_BYTES_MAX + 1)
        if len(data) > _SCRIPT_BYTES_MAX:
            raise Refused("the script is larger than 1 MiB.")
        return data.decode()
    except OSError as error:
        raise Refused(f"Unable to open file {words[0]}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused("the script is not UTF-8.") from None
