"""Actions on all jobs that match filters, with their number first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

import typer

from cli.api import Api
from cli.errors import CliError
from cli.output import tell

AllOption = Annotated[
    bool, typer.Option("--all", help="All jobs that the filters match, at most 1,000.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="With --all: do not ask first.")]
StateOption = Annotated[
    str | None, typer.Option(help="With --all: this state, or several: queued,running.")
]
TeamOption = Annotated[str | None, typer.Option(help="With --all: this path and below it.")]
UserOption = Annotated[str | None, typer.Option(help="With --all: jobs of this username.")]
PoolOption = Annotated[str | None, typer.Option(help="With --all: jobs in this pool.")]
ClassOption = Annotated[
    str | None, typer.Option("--class", help="With --all: jobs of this priority class.")
]
SearchOption = Annotated[
    str | None, typer.Option(help="With --all: jobs with this in their name, user or id.")
]
_DONE = {
    "cancel": "cancelled",
    "hold": "held",
    "release": "released",
    "requeue": "requeued",
}
#: Number of refusals that are printed.
_SHOWN_MAX = 10


def filters_of(
    *,
    state: str | None,
    team: str | None,
    user: str | None,
    pool: str | None,
    priority_class: str | None,
    search: str | None,
) -> dict[str, str | None]:
    """Return the options that name jobs as parameters of the API."""
    return {
        "state": state,
        "team": team,
        "user": user,
        "pool": pool,
        "priority_class": priority_class,
        "q": search,
    }


def change_all(
    api: Api, action: str, filters: Mapping[str, str | None], *, is_agreed: bool
) -> None:
    """Preview an action on all matching jobs, ask, and do it on the previewed jobs.

    Raises CliError without a filter, and if the person does not agree.
    """
    if not any(filters.values()):
        raise CliError("All of which jobs? Give a filter, such as --team, --user or --state.")
    plan = api.post("job-actions/preview", {"action": action}, **filters)
    count = len(plan["jobs"])
    if plan["forbidden"]:
        more = plan["forbidden"]
        verb, them = ("matches", "it") if more == 1 else ("match", "them")
        tell(f"{_jobs(more)} more {verb}, but you may not change {them}.")
    if not count:
        tell(f"No matching job can be {_DONE[action]}.")
        return
    tell(f"{_jobs(count)} would be {_DONE[action]}: {_counts(plan['states'])}.")
    tell(f"Users: {_counts(plan['users'])}. Your own: {plan['own']:,}.")
    if not is_agreed and not typer.confirm("Go on?", err=True):
        raise CliError("Nothing was changed.")
    done = api.post("job-actions", {"action": action, "jobs": plan["jobs"]}, key=str(uuid4()))
    refused = [one for one in done["items"] if one["problem"] is not None]
    for one in refused[:_SHOWN_MAX]:
        tell(f"Error: {one['job']}: {one['problem']['detail']}")
    if len(refused) > _SHOWN_MAX:
        tell(f"{len(refused) - _SHOWN_MAX:,} more were refused.")
    typer.echo(f"{_jobs(done['changed'])} {_DONE[action]}")
    if refused:
        raise typer.Exit(1)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _counts(counts: Mapping[str, Any]) -> str:
    """Return counts, the largest first: "3 queued, 1 running"."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in ordered)
