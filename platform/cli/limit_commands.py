"""`tidegate limits`: default and longest time limits of pools, teams and priority classes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, duration, print_data, print_fields, print_table, tell
from cli.submitting import time_limit

_LIMITS_MAX = 10_000
_REMOVED = "none"

limits_app = typer.Typer(
    no_args_is_help=True,
    help="Default and longest time limits of jobs.",
    rich_markup_mode=None,
)

OfPool = Annotated[str | None, typer.Option("--pool", help="Of jobs in this pool.")]
OfNode = Annotated[
    str | None,
    typer.Option("--team", help="Of jobs of this team, department or organization, by its path."),
]
OfClass = Annotated[str | None, typer.Option("--class", help="Of jobs of this priority class.")]
OfOrganization = Annotated[
    str | None, typer.Option("--organization", help="The organization of the class, by its slug.")
]
IfMatch = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION",
        help="Change it only if this is still its version, as in `list -o json`. "
        "Default: the present version.",
    ),
]


@limits_app.command("list")
def limits_list(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List time limits.

    Of several longest limits the strictest binds a job. A job without a limit gets the nearest
    default: of its class, its team, the nodes above it, then its pool.
    """
    found = list(open_api(ctx).items("time-limits", most=_LIMITS_MAX))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No time limits yet.")
        return
    print_table(
        ["OF", "DEFAULT", "LONGEST"],
        [[_owner(each), _told(each["default_s"]), _told(each["longest_s"])] for each in found],
    )


@limits_app.command("set")
def limits_set(
    ctx: typer.Context,
    pool: OfPool = None,
    team: OfNode = None,
    class_name: OfClass = None,
    organization: OfOrganization = None,
    default: Annotated[
        str | None, typer.Option(help="Time limit of jobs that ask for none: 1d; none removes it.")
    ] = None,
    longest: Annotated[
        str | None, typer.Option(help="Longest time limit of a job: 7d; none removes it.")
    ] = None,
    if_match: IfMatch = None,
    output: Output = Format.TABLE,
) -> None:
    """Set the time limits of a pool, a team or a class. Limits that are not named stay.

    They apply to jobs that are submitted or extended from now on.
    """
    if default is None and longest is None:
        raise CliError("Nothing to set: give --default or --longest.")
    api = open_api(ctx)
    edit = {
        name: None if text == _REMOVED else time_limit(text)
        for name, text in (("default_s", default), ("longest_s", longest))
        if text is not None
    }
    found = _found(api, pool, team, class_name, organization)
    if found is not None:
        seen = _tag(str(found["version"]) if if_match is None else if_match)
        shown = api.patch(f"time-limits/{found['id']}", edit, if_match=seen)
    else:
        owner = {
            "pool": pool,
            "node": team,
            "priority_class": class_name,
            "organization": organization if class_name else None,
        }
        body = {**{name: value for name, value in owner.items() if value}, **edit}
        shown = api.post("time-limits", body, key=str(uuid.uuid4()))
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    print_fields(
        [
            ("of", _owner(shown)),
            ("default", _told(shown["default_s"])),
            ("longest", _told(shown["longest_s"])),
            ("version", shown["version"]),
        ]
    )


@limits_app.command("remove")
def limits_remove(
    ctx: typer.Context,
    pool: OfPool = None,
    team: OfNode = None,
    class_name: OfClass = None,
    organization: OfOrganization = None,
    if_match: IfMatch = None,
) -> None:
    """Remove the time limits of a pool, a team or a class."""
    api = open_api(ctx)
    found = _found(api, pool, team, class_name, organization)
    if found is None:
        raise CliError("It has no time limits. `limits list` shows them.")
    seen = _tag(str(found["version"]) if if_match is None else if_match)
    api.delete(f"time-limits/{found['id']}", if_match=seen)
    tell(f"Removed the time limits of {_owner(found)}.")


def _found(
    api: Api, pool: str | None, team: str | None, class_name: str | None, organization: str | None
) -> Mapping[str, Any] | None:
    """Return the limits of the named owner; None if it has none."""
    if sum(one is not None for one in (pool, team, class_name)) != 1:
        raise CliError("Give exactly one of --pool, --team and --class.")
    if class_name is not None and organization is None:
        raise CliError("Name the organization of the class with --organization.")
    for each in api.items("time-limits", most=_LIMITS_MAX):
        if pool is not None and each["pool"] == pool:
            return each
        if team is not None and each["node"] == team.strip("/"):
            return each
        if class_name is not None and (each["priority_class"], each["organization"]) == (
            class_name,
            organization,
        ):
            return each
    return None


def _owner(each: Mapping[str, Any]) -> str:
    if each["pool"] is not None:
        return f"pool {each['pool']}"
    if each["priority_class"] is not None:
        return f"class {each['priority_class']} of {each['organization']}"
    return str(each["node"])


def _told(seconds: int | None) -> str:
    return _REMOVED if seconds is None else duration(seconds)


def _tag(version: str) -> str:
    return f'"v{version.strip().strip(chr(34)).removeprefix("v")}"'
