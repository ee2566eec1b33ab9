"""Commands on submitted jobs: list, show, cancel, requeue, hold, release, wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from cli import api as api_module
from cli.context import environment, open_api
from cli.error_lines import print_error_lines
from cli.errors import CANCELLED, STILL_OPEN, TIMED_OUT, CliError, Refused, Unreachable
from cli.job_lookup import (
    FINAL,
    HELD,
    OPEN,
    QUEUED,
    RUNNING,
    JobArgument,
    array_of,
    id_of_array,
    id_of_job,
    of_one_job,
)
from cli.job_text import counts_text, print_job, print_jobs
from cli.output import Format, now_utc, print_data, tell
from cli.polling import FAILURES_MAX, POLL_S
from cli.submitting import seconds

#: Pause to which `wait` slows down, in seconds.
_POLL_S_MAX = 5.0

Output = Annotated[Format, typer.Option("-o", "--output", help="How to print.")]


def ls(
    ctx: typer.Context,
    state: Annotated[
        str | None,
        typer.Option(help="Only this state, or several: queued,running."),
    ] = None,
    team: Annotated[str | None, typer.Option(help="Only jobs of this path and below it.")] = None,
    user: Annotated[str | None, typer.Option(help="Only jobs of this username.")] = None,
    pool: Annotated[str | None, typer.Option(help="Only jobs in this pool.")] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs whose name contains this.")] = None,
    usage_class: Annotated[
        str | None, typer.Option(help="Only jobs that use guaranteed or borrowed GPUs now.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(help="Only jobs submitted here (portal), or to a cluster itself (native)."),
    ] = None,
    array: Annotated[
        str | None, typer.Option(metavar="ARRAY", help="Only tasks of the array with this id.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only jobs submitted since then: 2026-11-21T12:00:00Z.")
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Reverse the order.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of jobs.")] = 50,
    output: Output = Format.TABLE,
) -> None:
    """List jobs, newest first."""
    jobs = list(
        open_api(ctx).items(
            "jobs",
            most=limit,
            state=state,
            team=team,
            user=user,
            pool=pool,
            q=name,
            usage_class=usage_class,
            origin=origin,
            array=None if array is None else id_of_array(array),
            submitted_at__gte=since,
            sort="submitted_at" if oldest_first else None,
        )
    )
    if output is not Format.TABLE:
        print_data(jobs, output)
    elif jobs:
        print_jobs(jobs, now=now_utc())
        if len(jobs) == limit:
            tell(f"These are the first {limit}. Use --limit for more.")
    else:
        tell("No jobs.")


def get(ctx: typer.Context, job: JobArgument, output: Output = Format.TABLE) -> None:
    """Show a job."""
    api = open_api(ctx)
    found = of_one_job(api, id_of_job(api, job), "")
    if output is Format.TABLE:
        print_job(found)
        print_error_lines(api, found)
    else:
        print_data(found, output)


def cancel(
    ctx: typer.Context,
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB...")] = None,
    array: Annotated[
        str | None,
        typer.Option(metavar="ARRAY", help="All tasks of the array with this id."),
    ] = None,
) -> None:
    """Cancel jobs: waiting jobs at once, running jobs by notice and 30 s later by force."""
    if array is not None:
        if jobs:
            raise CliError("Give either jobs or --array, not both.")
        found = open_api(ctx).post(f"job-arrays/{id_of_array(array)}/cancel")
        typer.echo(f"{found['id']}  {counts_text(found['counts'])}")
        return
    if not jobs:
        raise CliError("Which jobs? Give their ids, or --array.")
    _change(ctx, jobs, "cancel", OPEN)


def requeue(
    ctx: typer.Context, jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...")] = None
) -> None:
    """Stop running jobs, by notice and grace, and queue them again at their old place.

    Inside a job no JOB means the job itself.
    """
    own = environment().get("TIDEGATE_JOB_ID")
    if not jobs and not own:
        raise CliError("Which jobs? Give their ids. They are optional only inside a job.")
    _change(ctx, jobs or [str(own)], "requeue", RUNNING)


def hold(ctx: typer.Context, jobs: Annotated[list[str], typer.Argument(metavar="JOB...")]) -> None:
    """Hold queued jobs, so that they do not start."""
    _change(ctx, jobs, "hold", QUEUED)


def release(
    ctx: typer.Context, jobs: Annotated[list[str], typer.Argument(metavar="JOB...")]
) -> None:
    """Release held jobs. They queue again at their old place."""
    _change(ctx, jobs, "release", HELD)


def _change(ctx: typer.Context, jobs: Sequence[str], action: str, states: Sequence[str]) -> None:
    api = open_api(ctx)
    failed: CliError | None = None
    for job in jobs:
        try:
            found = api.post(f"jobs/{id_of_job(api, job, states=states)}/{action}")
        except (Refused, CliError) as error:
            if len(jobs) == 1 or isinstance(error, Unreachable):
                raise
            failed = error
            tell(f"Error: {job}: {error.message}")
        else:
            is_ending = action == "cancel" and found["state"] not in FINAL
            ending = "cancelling" if is_ending else "requeuing" if action == "requeue" else ""
            typer.echo(f"{found['id']}  {ending or found['state']}")
    if failed is not None:
        raise typer.Exit(failed.exit_code)


def wait(
    ctx: typer.Context,
    job: JobArgument,
    timeout: Annotated[
        str | None, typer.Option(help="Stop waiting after 90s, 30m, 2h... with exit code 75.")
    ] = None,
) -> None:
    """Wait until a job, or every task of an array, has ended, and exit with its code.

    Exit codes: the job's own; 0 succeeded; 1 failed without a code; 128+N killed by signal N; 124
    timed out; 130 cancelled; 75 not ended after --timeout. For an array: 0 when all tasks
    succeeded, else 1.
    """
    patience_s = seconds(timeout, "--timeout")
    api = open_api(ctx)
    job_id = id_of_job(api, job, states=OPEN)
    is_array = job_id == job.lower() and array_of(api, job_id) is not None
    waited_s, pause_s, failures = 0.0, POLL_S, 0
    while True:
        try:
            found = api.get(f"{'job-arrays' if is_array else 'jobs'}/{job_id}")
            failures = 0
        except Unreachable:
            failures += 1
            if failures == FAILURES_MAX:
                raise
        else:
            if is_array:
                if not any(found["counts"][state] for state in found["counts"].keys() - FINAL):
                    tell(f"{found['id']}  {counts_text(found['counts'])}")
                    raise typer.Exit(0 if found["counts"]["succeeded"] == found["size"] else 1)
            elif found["state"] in FINAL:
                tell(f"{found['id']}  {found['state']}")
                raise typer.Exit(exit_code_of(found))
        if patience_s is not None and waited_s >= patience_s:
            tell(f"Not ended after {timeout}.")
            raise typer.Exit(STILL_OPEN)
        if patience_s is not None:
            pause_s = min(pause_s, patience_s - waited_s)
        api_module.sleep(pause_s)
        waited_s += pause_s
        pause_s = min(max(pause_s, POLL_S) * 1.5, _POLL_S_MAX)


def exit_code_of(job: dict[str, Any]) -> int:
    """Return the exit code of `wait` for an ended job."""
    state = job["state"]
    code: int | None = job["exit_code"]
    if state == "succeeded":
        return 0
    if state == "cancelled":
        return CANCELLED
    if state == "timed_out":
        return TIMED_OUT
    if not code:
        return 1
    return 128 - code if code < 0 else min(code, 255)


COMMANDS: Sequence[Callable[..., None]] = (ls, get, cancel, requeue, hold, release, wait)
