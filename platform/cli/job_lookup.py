"""Jobs and arrays by what they are called on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from cli.api import Api
from cli.errors import CliError, Refused
from cli.output import tell

#: What people may write for a job.
JOB_HELP = "Its id, the end of its id (c518), or the beginning of the name of a job of yours."
HELD, QUEUED = ("held",), ("queued",)
WAITING = (*HELD, *QUEUED)
RUNNING = ("running", "preempting")
OPEN = (*WAITING, "starting", *RUNNING)
#: So many jobs of one name are looked at.
_NAMED_MAX = 200
_END_OF_ID = re.compile(r"[0-9a-f]{4,12}")


def id_of_job(api: Api, given: str, *, states: Sequence[str] = ()) -> str:
    """The id of the job that `given` is the id, the name, the beginning of the name, or the end
    of the id (as pages show it) of.

    Names are looked up among the caller's own jobs, ends of ids there first. `states` are those of
    jobs that the command is for: where several match and one of these is in such a state, it is
    meant, and told. Raises CliError unless it is one job.
    """
    try:
        return str(UUID(given))
    except ValueError:
        pass
    username = api.username()
    found = _named(api, given, user=username) or _by_end_of_id(api, given, username)
    if not found:
        raise CliError(
            f"You have no job whose name begins with {given!r}, and no job that you may see has "
            "an id that ends so. `tidegate ls` lists jobs."
        )
    exact = [job for job in found if job["name"] == given]
    found = exact or found
    matching = f"match {given!r}"
    if len(found) > 1 and states:
        fitting = _named(api, given, user=username, state=",".join(states))
        fitting = [job for job in fitting if job["name"] == given or not exact]
        if len(fitting) == 1:
            (job,) = fitting
            tell(f"Of your jobs that {matching} only this one is {job['state']}: {_line(job)}")
        elif fitting:
            matching += f" and are {' or '.join(states)}"
        found = fitting or found
    if len(found) == 1:
        return str(found[0]["id"])
    some = "\n".join(f"  {_line(job)}  {job['state']}" for job in found[:5])
    raise CliError(f"{len(found)} of your jobs {matching}; give the id of one:\n{some}")


def _named(api: Api, beginning: str, **parameters: object) -> list[dict[str, Any]]:
    jobs = api.items("jobs", most=_NAMED_MAX, **parameters, q=beginning)
    return [job for job in jobs if str(job["name"]).startswith(beginning)]


def _by_end_of_id(api: Api, end: str, username: str) -> list[dict[str, Any]]:
    """The caller's jobs whose id ends in `end`, else everybody's that they may see."""
    if not _END_OF_ID.fullmatch(end.lower()):
        return []
    for parameters in ({"user": username}, {}):
        jobs = api.items("jobs", most=_NAMED_MAX, **parameters, q=end)
        if found := [job for job in jobs if str(job["id"]).endswith(end.lower())]:
            return found
    return []


def _line(job: dict[str, Any]) -> str:
    return f"{job['id']}  {job['name']}"


def job_or_array(api: Api, given: str) -> dict[str, str]:
    """`given` as what a job can wait for: a job by id or name, or an array by id."""
    found = id_of_job(api, given)
    if found == given.lower() and array_of(api, found) is not None:
        return {"array": found}
    return {"job": found}


def id_of_array(given: str) -> str:
    """`given`, if it can be the id of an array: a name may be that of several. Raises CliError."""
    try:
        return str(UUID(given))
    except ValueError:
        raise CliError(
            f"{given!r} is no id of an array: that is what `tidegate submit --array` printed, and "
            "what `tidegate get` tells of each of its tasks."
        ) from None


def array_of(api: Api, array_id: str) -> dict[str, Any] | None:
    """The array with this id, None when there is none that the caller can see."""
    try:
        return api.get(f"job-arrays/{array_id}")
    except Refused as refusal:
        if refusal.status != 404:
            raise
        return None


def of_one_job(api: Api, job_id: str, what: str, **parameters: object) -> dict[str, Any]:
    """GET of a job. Raises as `one_job`."""
    with one_job(api, job_id):
        return api.get(f"jobs/{job_id}{what}", **parameters)


@contextmanager
def one_job(api: Api, job_id: str) -> Iterator[None]:
    """Something is asked of a job; of an array's id, CliError says how to find its tasks."""
    try:
        yield
    except Refused as refusal:
        if refusal.status != 404 or (array := array_of(api, job_id)) is None:
            raise
        raise CliError(
            f"{job_id} is an array of {_tasks(array['size'])}; name one of them. They are listed "
            f"by: tidegate ls --array {job_id}"
        ) from refusal


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"
