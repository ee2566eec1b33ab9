"""`tidegate schedules` and `tidegate schedule`, and the schedules of `tidegate submit`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, plain, print_data, print_fields, print_table, tell
from cli.submitting import is_cron_job
from primitives.durations import duration_of_seconds

#: Schedules that are searched for an id or a name, and runs of one that are shown.
_SEARCHED_MAX = 500
_RUNS_MAX = 10
_END_OF_ID = re.compile(r"[0-9a-f]{4,36}")


class Act(StrEnum):
    """A change of a schedule."""

    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"


def schedules(
    ctx: typer.Context,
    team: Annotated[
        str | None, typer.Option(help="Only schedules of this path and below it.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only schedules of this username.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Number of schedules.")] = 50,
    output: Output = Format.TABLE,
) -> None:
    """List schedules, newest first. `tidegate submit --cron` creates one."""
    found = list(open_api(ctx).items("schedules", most=limit, team=team, user=user))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No schedules. Create one with: tidegate submit --cron '0 3 * * *' FILE")
        return
    print_table(
        ["SCHEDULE", "NAME", "CRON", "TIME ZONE", "NEXT RUN", "LAST RUN", "USER"],
        [
            [
                one["id"][-12:],
                one["name"],
                one["cron"],
                one["time_zone"],
                one["next_at"] or "suspended",
                _outcome(one["last_run"]),
                one["user"],
            ]
            for one in found
        ],
        squeeze="NAME",
    )
    if len(found) == limit:
        tell(f"These are the first {limit}. Use --limit for more.")


def schedule(
    ctx: typer.Context,
    given: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE", help="Its id, the end of the id as in `schedules`, or its name."
        ),
    ],
    act: Annotated[
        Act | None, typer.Argument(metavar="[suspend|resume|delete]", help="The change.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a schedule and its latest runs, or suspend, resume or delete it.

    Its jobs go on in each case. Runs that were due while it was suspended are not made up.
    """
    api = open_api(ctx)
    path = f"schedules/{_schedule_id(api, given)}"
    if act is Act.DELETE:
        api.delete(path)
        tell("Deleted. Its jobs stay.")
        return
    change = {"is_suspended": act is Act.SUSPEND}
    found = api.get(path) if act is None else api.patch(path, change)
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if act is not None:
        tell(f"{found['id']}  next run: {found['next_at'] or 'none, it is suspended'}")
        return
    _print(found)
    runs = list(api.items(f"{path}/runs", most=_RUNS_MAX))
    if runs:
        typer.echo()
        print_table(
            ["RUN", "OUTCOME", "JOB", "REASON"],
            [
                [
                    run["scheduled_at"],
                    run["outcome"],
                    run["job"]["id"] if run["job"] else "",
                    run["reason"] or "",
                ]
                for run in runs
            ],
            squeeze="REASON",
        )


def _print(found: Mapping[str, Any]) -> None:
    print_fields(
        [
            ("id", found["id"]),
            ("name", found["name"]),
            ("team", found["team"]),
            ("user", found["user"]),
            ("template", _template_text(found["template"])),
        ]
    )
    print_recurrence(found)
    print_fields(
        [
            ("created", found["created_at"]),
            ("deleted", found["ended_at"]),
        ]
    )


def _template_text(template: Mapping[str, Any] | None) -> str | None:
    if template is None:
        return None
    return str(template["name"] or f"{template['id']}, which you may not use")


def print_recurrence(found: Mapping[str, Any]) -> None:
    """Print when the runs of a schedule or of its plan are due."""
    deadline_s = found["starting_deadline_s"]
    why = found.get("suspended_because")
    print_fields(
        [
            ("cron", f"{found['cron']} ({found['time_zone']})"),
            ("concurrency", found["concurrency_policy"]),
            ("starts within", None if deadline_s is None else duration_of_seconds(deadline_s)),
            ("suspended", (why or "yes") if found["is_suspended"] else None),
            *(("next run", moment) for moment in found["next_runs"]),
        ]
    )


def _outcome(run: Mapping[str, Any] | None) -> str:
    """Return the state of the job of a run, or why there is none."""
    if run is None:
        return ""
    return str(run["job"]["state"] if run["job"] else run["outcome"])


def _schedule_id(api: Api, given: str) -> str:
    """Return the id of the schedule that `given` names. Raises CliError unless it is one."""
    try:
        return str(UUID(given))
    except ValueError:
        pass
    known = list(api.items("schedules", most=_SEARCHED_MAX))
    found = [one for one in known if one["name"] == given]
    if not found and _END_OF_ID.fullmatch(given.lower()):
        found = [one for one in known if one["id"].endswith(given.lower())]
    if len(found) == 1:
        return str(found[0]["id"])
    if found:
        listed = ", ".join(f"{one['id'][-12:]} of {one['user']}" for one in found[:5])
        raise CliError(f"{len(found)} schedules match {given!r}: {plain(listed)}. Give an id.")
    raise CliError(f"No schedule matches {given!r}. `tidegate schedules` lists them.")


def recurrence_of(
    *,
    cron: str | None,
    time_zone: str | None,
    concurrency: str | None,
    starting_deadline_s: int | None,
) -> dict[str, Any]:
    """Return the given options of `submit` as members of a schedule. Raises CliError."""
    given = {
        "cron": cron,
        "time_zone": time_zone,
        "concurrency_policy": concurrency,
        "starting_deadline_s": starting_deadline_s,
    }
    found = {name: value for name, value in given.items() if value is not None}
    if found and cron is None:
        raise CliError(
            "--time-zone, --concurrency and --starting-deadline belong to --cron. Give --cron, "
            "such as '0 3 * * *'."
        )
    return found


def request_of(
    body: Mapping[str, Any], recurrence: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]]:
    """Return the path and the body of the request that submits a job, or creates a schedule."""
    if recurrence or is_cron_job(body):
        return "schedules", {**recurrence, "request": body}
    return "jobs", body


def fits(planned: Mapping[str, Any]) -> bool:
    """Return whether the job of a plan, or of the plan of a schedule, could run."""
    return bool(planned.get("plan", planned)["fits"])


def tell_next(made: Mapping[str, Any]) -> None:
    """Say when the first run of a new schedule is due."""
    tell(
        "A schedule, which is suspended. Resume it with: tidegate schedule "
        f"{made['id'][-12:]} resume"
        if made["is_suspended"]
        else f"A schedule. Its first run is at {made['next_at']}."
    )
