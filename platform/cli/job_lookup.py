"""Jobs and arrays by what they are called on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cli.api import Api
from cli.errors import CliError, Refused


def job_or_array(api: Api, given: str) -> dict[str, str]:
    """`given` as what a job can wait for: a job by id or name, or an array by id."""
    job_id = api.job_id(given)
    if job_id == given.lower() and array_of(api, job_id) is not None:
        return {"array": job_id}
    return {"job": job_id}


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
