"""`squeue` inside of a batch job, on a cluster without Slurm: the open jobs of its owner."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batch.command_line import Argument, Options, Refused, read_command_line
from batch.job_texts import (
    STATES,
    duration_text,
    end_time,
    nodes_of,
    reason,
    run_time_s,
    time_left_s,
    time_text,
)
from batch.portal import Portal
from primitives.hostlist import contract

_NONE, _REQUIRED = Argument.NONE, Argument.REQUIRED
_JOBS_MAX = 100
_PAGE = 500
_LISTED_MAX = 20_000
_OPEN = ("held", "queued", "starting", "running", "preempting")
#: Ids are longer here than Slurm's.
_FORMAT = "%.36i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_FIELD = re.compile(r"%(\.?)([0-9]*)([A-Za-z%])")

_OPTIONS: Options = {
    "format": ("o", _REQUIRED),
    "jobs": ("j", _REQUIRED),
    "me": ("", _NONE),
    "name": ("n", _REQUIRED),
    "noheader": ("h", _NONE),
    "partition": ("p", _REQUIRED),
    "states": ("t", _REQUIRED),
    "user": ("u", _REQUIRED),
}

Job = Mapping[str, Any]

_FIELDS: dict[str, tuple[str, Callable[[Job], object]]] = {
    "a": ("ACCOUNT", lambda job: job["team"]),
    "A": ("JOBID", lambda job: job["id"]),
    "B": ("EXEC_HOST", lambda job: (nodes_of(job) or ["n/a"])[0]),
    "D": ("NODES", lambda job: job["node_count"]),
    "e": ("END_TIME", lambda job: time_text(end_time(job))),
    "F": ("ARRAY_JOB_ID", lambda job: (job["array"] or job)["id"]),
    "i": ("JOBID", lambda job: job["id"]),
    "j": ("NAME", lambda job: job["name"]),
    "l": ("TIME_LIMIT", lambda job: duration_text(job["time_limit_s"])),
    "L": ("TIME_LEFT", lambda job: duration_text(time_left_s(job))),
    "M": ("TIME", lambda job: duration_text(run_time_s(job))),
    "N": ("NODELIST", lambda job: contract(nodes_of(job))),
    "P": ("PARTITION", lambda job: job["pool"]),
    "q": ("QOS", lambda job: job["priority_class"]),
    "r": ("REASON", reason),
    "R": ("NODELIST(REASON)", lambda job: contract(nodes_of(job)) or f"({reason(job)})"),
    "S": ("START_TIME", lambda job: time_text(job["started_at"])),
    "t": ("ST", lambda job: STATES[job["state"]][1]),
    "T": ("STATE", lambda job: STATES[job["state"]][0]),
    "u": ("USER", lambda job: job["user"]),
    "V": ("SUBMIT_TIME", lambda job: time_text(job["submitted_at"])),
}


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Print the jobs that `arguments` ask for."""
    given, words = read_command_line("squeue", _OPTIONS, arguments)
    if words:
        raise Refused(f"{words[0]!r} is no option.")
    options = dict(given)
    columns = _columns(options.get("format", _FORMAT))
    found = [job for job in _jobs(options, Portal(environment)) if _is_wanted(job, options)]
    if "noheader" not in options:
        print(_line(columns, lambda letter: _FIELDS[letter][0]))
    for job in found:
        print(_line(columns, lambda letter, job=job: str(_FIELDS[letter][1](job))))  # type: ignore[misc]
    return 0


def _jobs(options: Mapping[str, str], portal: Portal) -> list[Job]:
    if "jobs" in options:
        ids = [portal.id_of(job) for job in options["jobs"].split(",") if job]
        if len(ids) > _JOBS_MAX:
            raise Refused(f"name at most {_JOBS_MAX} jobs.")
        return [portal.get(f"jobs/{job}") for job in ids]
    asked = {"state": ",".join(_states(options)), "limit": str(_PAGE), "sort": "submitted_at"}
    if "partition" in options:
        asked["pool"] = options["partition"]
    users = [user for user in options.get("user", "").split(",") if user]
    if "me" in options or not users:
        users = [portal.get(f"jobs/{portal.own_id()}")["user"]]
    found: list[Job] = []
    for user in users:
        page = portal.get("jobs", user=user, **asked)
        found += page["items"]
        while page["next"]:
            if len(found) >= _LISTED_MAX:
                raise Refused(
                    f"there are more than {_LISTED_MAX} jobs; name states or a partition."
                )
            page = portal.get_page(page["next"])
            found += page["items"]
    return found


def _states(options: Mapping[str, str]) -> list[str]:
    """Return the states of the portal that --states names; those of open jobs by default."""
    named = {state.upper() for state in options.get("states", "").split(",") if state}
    if not named:
        return list(_OPEN)
    if "ALL" in named:
        return list(STATES)
    states = [state for state, words in STATES.items() if named & set(words)]
    if not states:
        raise Refused(f"{options['states']} is no state of a job.")
    return states


def _is_wanted(job: Job, options: Mapping[str, str]) -> bool:
    if "states" in options and job["state"] not in _states(options):
        return False
    names = [name for name in options.get("name", "").split(",") if name]
    return not names or job["name"] in names


def _columns(text: str) -> list[tuple[str, str, int | None, bool]]:
    """Return the columns of a format: the text before it, its letter, width, and its side."""
    columns = []
    at = 0
    for match in _FIELD.finditer(text):
        if match[3] not in _FIELDS:
            known = " ".join(f"%{letter}" for letter in sorted(_FIELDS))
            raise Refused(f"%{match[3]} is not offered here; these fields are: {known}.")
        width = int(match[2]) if match[2] else None
        columns.append((text[at : match.start()], match[3], width, bool(match[1])))
        at = match.end()
    return columns


def _line(columns: Sequence[tuple[str, str, int | None, bool]], value: Callable[[str], str]) -> str:
    parts = []
    for before, letter, width, is_right in columns:
        text = value(letter)
        if width is not None:
            text = text[:width].rjust(width) if is_right else text[:width].ljust(width)
        parts.append(before + text)
    return "".join(parts)
