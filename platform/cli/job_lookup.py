"""Finds jobs and arrays by the names that users type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import UUID

import typer

from cli.api import Api
from cli.errors import CliError, Refused
from cli.output import tell

#: The forms in which a user may name a job.
JOB_HELP = "Its id, the end (c518) or the first 8 digits of the id, or the beginning of its name."
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help=JOB_HELP)]
HELD, QUEUED = ("held",), ("queued",)
WAITING = (*HELD, *QUEUED)
RUNNING = ("running", "preempting")
OPEN = (*WAITING, "starting", *RUNNING)
FINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out"})
#: Number of jobs with one name that are searched.
_NAMED_MAX = 200
_END_OF_ID = re.compile(r"[0-9a-f]{4,12}")
_START_OF_ID = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}")


def id_of_job(api: Api, given: str, *, states: Sequence[str] = ()) -> str:
    """Return the id of the job that `given` names.

    `given` may be the id, the name or its beginning, or the end (as pages show it) or beginning of
    the id. The caller's own jobs come first, then all visible jobs.

    `states` are the job states that the command is for. If several jobs match and only one is in
    such a state, that job is chosen, and the choice is printed. Raises CliError unless it is one
    job.
    """
    try:
        return str(UUID(given))
    except ValueError:
        pass
    whose: dict[str, object] = {"user": api.username()}
    found = _matching(api, given, **whose)
    if not found:
        whose = {}
        found = _matching(api, given)
    if not found:
        raise CliError(
            f"No visible job has a name that begins with {given!r}, or an id that ends (4 to 12 "
            "digits) or begins (8 or more) with it. `tidegate ls` lists jobs."
        )
    jobs = "of your jobs" if whose else "jobs"
    exact = [job for job in found if job["name"] == given]
    found = exact or found
    matching = f"match {given!r}"
    if len(found) > 1 and states:
        fitting = _matching(api, given, **whose, state=",".join(states))
        fitting = [job for job in fitting if job["name"] == given or not exact]
        if len(fitting) == 1:
            (job,) = fitting
            of_jobs = "Of your jobs" if whose else "Of the jobs"
            tell(f"{of_jobs} that {matching} only this one is {job['state']}: {_line(job)}")
        elif fitting:
            matching += f" and are {' or '.join(states)}"
        found = fitting or found
    if len(found) == 1:
        return str(found[0]["id"])
    some = "\n".join(f"  {_line(job)}  {job['state']}" for job in found[:5])
    raise CliError(f"{len(found)} {jobs} {matching}. Give the id of one:\n{some}")


def _matching(api: Api, given: str, **parameters: object) -> list[dict[str, Any]]:
    """Return jobs whose name begins with `given`, or else whose id begins or ends with it."""
    jobs = list(api.items("jobs", most=_NAMED_MAX, **parameters, q=given))
    named = [job for job in jobs if str(job["name"]).startswith(given)]
    return named or [job for job in jobs if _has_id(job, given.lower())]


def _has_id(job: dict[str, Any], part: str) -> bool:
    pk = str(job["id"])
    return bool(
        (_END_OF_ID.fullmatch(part) and pk.endswith(part))
        or (_START_OF_ID.fullmatch(part) and pk.startswith(part))
    )


def _line(job: dict[str, Any]) -> str:
    return f"{job['id']}  {job['name']}"


def job_or_array(api: Api, given: str) -> dict[str, str]:
    """Return `given` as a dependency of a job: a job by id or name, or an array by id."""
    found = id_of_job(api, given)
    if found == given.lower() and array_of(api, found) is not None:
        return {"array": found}
    return {"job": found}


def id_of_array(given: str) -> str:
    """Return `given` if it is an id. Raises CliError for a name, which several arrays may have."""
    try:
        return str(UUID(given))
    except ValueError:
        raise CliError(
            f"{given!r} is not the id of an array. `tidegate submit --array` prints that id, and "
            "`tidegate get` shows it for each task."
        ) from None


def array_of(api: Api, array_id: str) -> dict[str, Any] | None:
    """Return the array with this id, or None when the caller cannot see one."""
    try:
        return api.get(f"job-arrays/{array_id}")
    except Refused as refusal:
        if refusal.status != 404:
            raise
        return None


def of_one_job(api: Api, job_id: str, what: str, **parameters: object) -> dict[str, Any]:
    """Send a GET for a job. Raises as `one_job`."""
    with one_job(api, job_id):
        return api.get(f"jobs/{job_id}{what}", **parameters)


@contextmanager
def one_job(api: Api, job_id: str) -> Iterator[None]:
    """Turn a 404 for an array's id into a CliError that says how to find its tasks."""
    try:
        yield
    except Refused as refusal:
        if refusal.status != 404 or (array := array_of(api, job_id)) is None:
            raise
        raise CliError(
            f"{job_id} is an array of {_tasks(array['size'])}. Name one of its tasks. List them "
            f"with: tidegate ls --array {job_id}"
        ) from refusal


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"
