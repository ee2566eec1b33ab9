"""Commands on submitted jobs: list, show, cancel, requeue, hold, release, wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from cli import api as api_module
from cli.bulk_change import (
    AllOption,
    ClassOption,
    PoolOption,
    SearchOption,
    StateOption,
    TeamOption,
    UserOption,
    YesOption,
    change_all,
    filters_of,
)
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
    one_job,
)
from cli.job_text import counts_text, print_job, print_jobs
from cli.moments import moment
from cli.output import Format, Output, now_utc, print_data, tell
from cli.polling import FAILURES_MAX, POLL_S
from cli.submitting import seconds
from cli.view_commands import parameters_of_view

#: Pause to which `wait` slows down, in seconds.
_POLL_S_MAX = 5.0


def ls(
    ctx: typer.Context,
    state: Annotated[
        str | None,
        typer.Option(help="Only this state, or several: queued,running."),
    ] = None,
    team: Annotated[str | None, typer.Option(help="Only jobs of this path and below it.")] = None,
    user: Annotated[str | None, typer.Option(help="Only jobs of this username.")] = None,
    pool: Annotated[str | None, typer.Option(help="Only jobs in this pool.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Only jobs on this cluster, or pinned to it.")
    ] = None,
    priority_class: Annotated[
        str | None, typer.Option("--class", help="Only jobs of this priority class.")
    ] = None,
    job_type: Annotated[
        str | None, typer.Option("--type", help="Only jobs of this type, such as training.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            "--name",
            help="Only jobs with this in their name, or with this user, id or cluster's id.",
        ),
    ] = None,
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
    schedule: Annotated[
        str | None, typer.Option(metavar="SCHEDULE", help="Only jobs of the schedule with this id.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only jobs submitted since then: 2026-11-21, in UTC.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only jobs submitted before then.")] = None,
    ended_since: Annotated[str | None, typer.Option(help="Only jobs ended since then.")] = None,
    ended_until: Annotated[str | None, typer.Option(help="Only jobs ended before then.")] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            help="Order: submitted_at, started_at, ended_at, gpus, name, state, team or user; "
            "-gpus has the largest first."
        ),
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="The same as --sort submitted_at.")
    ] = False,
    view: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Filters of this saved view. Other options win over it."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of jobs.")] = 50,
    output: Output = Format.TABLE,
) -> None:
    """List jobs, newest first."""
    if sort is not None and oldest_first:
        raise CliError("Give either --sort or --oldest-first, not both.")
    api = open_api(ctx)
    options = {
        "state": state,
        "team": team,
        "user": user,
        "pool": pool,
        "cluster": cluster,
        "priority_class": priority_class,
        "type": job_type,
        "q": search,
        "usage_class": usage_class,
        "origin": origin,
        "array": None if array is None else id_of_array(array),
        "schedule": schedule,
        "submitted_at__gte": _moment(since, "--since"),
        "submitted_at__lt": _moment(until, "--until"),
        "ended_at__gte": _moment(ended_since, "--ended-since"),
        "ended_at__lt": _moment(ended_until, "--ended-until"),
        "sort": "submitted_at" if oldest_first else sort,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if view is not None:
        given = {**parameters_of_view(api, view), **given}
    jobs = list(api.items("jobs", most=limit, **given))
    if output is not Format.TABLE:
        print_data(jobs, output)
    elif jobs:
        print_jobs(jobs, now=now_utc())
        if len(jobs) == limit:
            tell(f"These are the first {limit}. Use --limit for more.")
    else:
        tell("No jobs.")


def _moment(given: str | None, option: str) -> str | None:
    return None if given is None else moment(given, option)


def get(ctx: typer.Context, job: JobArgument, output: Output = Format.TABLE) -> None:
    """Show a job. With -o yaml, print its request: a file for `tidegate submit`."""
    api = open_api(ctx)
    job_id = id_of_job(api, job)
    if output is Format.YAML:
        with one_job(api, job_id):
            typer.echo(api.get_text(f"jobs/{job_id}/request", format="yaml"), nl=False)
        return
    found = of_one_job(api, job_id, "")
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
    all_of_them: AllOption = False,
    state: StateOption = None,
    team: TeamOption = None,
    user: UserOption = None,
    pool: PoolOption = None,
    priority_class: ClassOption = None,
    search: SearchOption = None,
    yes: YesOption = False,
) -> None:
    """Cancel jobs: waiting jobs at once, running jobs by notice and 30 s later by force."""
    filters = filters_of(
        state=state, team=team, user=user, pool=pool, priority_class=priority_class, search=search
    )
    if _changed_all(ctx, "cancel", jobs, all_of_them, filters, yes):
        return
    if array is not None:
        if jobs:
            raise CliError("Give either jobs or --array, not both.")
        found = open_api(ctx).post(f"job-arrays/{id_of_array(array)}/cancel")
        typer.echo(f"{found['id']}  {counts_text(found['counts'])}")
        return
    if not jobs:
        raise CliError("Which jobs? Give their ids, --array, or --all with filters.")
    _change(ctx, jobs, "cancel", OPEN)


def requeue(
    ctx: typer.Context,
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...")] = None,
    all_of_them: AllOption = False,
    state: StateOption = None,
    team: TeamOption = None,
    user: UserOption = None,
    pool: PoolOption = None,
    priority_class: ClassOption = None,
    search: SearchOption = None,
    yes: YesOption = False,
) -> None:
    """Stop running jobs, by notice and grace, and queue them again at their old place.

    Inside a job no JOB means the job itself.
    """
    filters = filters_of(
        state=state, team=team, user=user, pool=pool, priority_class=priority_class, search=search
    )
    if _changed_all(ctx, "requeue", jobs, all_of_them, filters, yes):
        return
    own = environment().get("TIDEGATE_JOB_ID")
    if not jobs and not own:
        raise CliError(
            "Which jobs? Give their ids, or --all with filters. Only inside a job they are "
            "optional."
        )
    _change(ctx, jobs or [str(own)], "requeue", RUNNING)


def hold(
    ctx: typer.Context,
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB...")] = None,
    all_of_them: AllOption = False,
    state: StateOption = None,
    team: TeamOption = None,
    user: UserOption = None,
    pool: PoolOption = None,
    priority_class: ClassOption = None,
    search: SearchOption = None,
    yes: YesOption = False,
) -> None:
    """Hold queued jobs, so that they do not start."""
    filters = filters_of(
        state=state, team=team, user=user, pool=pool, priority_class=priority_class, search=search
    )
    if _changed_all(ctx, "hold", jobs, all_of_them, filters, yes):
        return
    if not jobs:
        raise CliError("Which jobs? Give their ids, or --all with filters.")
    _change(ctx, jobs, "hold", QUEUED)


def release(
    ctx: typer.Context,
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB...")] = None,
    all_of_them: AllOption = False,
    state: StateOption = None,
    team: TeamOption = None,
    user: UserOption = None,
    pool: PoolOption = None,
    priority_class: ClassOption = None,
    search: SearchOption = None,
    yes: YesOption = False,
) -> None:
    """Release held jobs. They queue again at their old place."""
    filters = filters_of(
        state=state, team=team, user=user, pool=pool, priority_class=priority_class, search=search
    )
    if _changed_all(ctx, "release", jobs, all_of_them, filters, yes):
        return
    if not jobs:
        raise CliError("Which jobs? Give their ids, or --all with filters.")
    _change(ctx, jobs, "release", HELD)


def _changed_all(
    ctx: typer.Context,
    action: str,
    jobs: Sequence[str] | None,
    is_all: bool,
    filters: Mapping[str, str | None],
    is_agreed: bool,
) -> bool:
    """Change all matching jobs with --all, and return whether that was asked for."""
    if not is_all:
        if any(filters.values()):
            raise CliError("Filters need --all.")
        return False
    if jobs:
        raise CliError("Give either jobs or --all, not both.")
    change_all(open_api(ctx), action, filters, is_agreed=is_agreed)
    return True


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
