"""`tidegate caps`: the most GPUs that users of a team may use at once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.change_commands import mgpu_of
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, gpus, print_data, print_fields, print_table, tell

_CAPS_MAX = 10_000
_NONE = "none"

caps_app = typer.Typer(
    no_args_is_help=True,
    help="Caps for the users of a team: GPUs at once.",
    rich_markup_mode=None,
)

Team = Annotated[str, typer.Option("--team", help="The team, by its path.")]
OfUser = Annotated[
    str | None, typer.Option("--user", help="Only this user. Default: each user of the team.")
]
OfPool = Annotated[
    str | None, typer.Option("--pool", help="Only this pool. Default: all pools together.")
]


@caps_app.command("list")
def caps_list(
    ctx: typer.Context,
    team: Annotated[str | None, typer.Option("--team", help="Caps of this team only.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List caps. The cap of a person comes before that of each user in the same pool."""
    found = list(open_api(ctx).items("user-caps", most=_CAPS_MAX, team=team))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No caps yet.")
        return
    print_table(
        ["TEAM", "USER", "POOL", "AT ONCE"],
        [[each["team"], *_scope(each), _cap(each)] for each in found],
        squeeze="TEAM",
    )


@caps_app.command("set")
def caps_set(
    ctx: typer.Context,
    most: Annotated[str, typer.Argument(metavar="GPUS", help="Such as 8; none: no cap.")],
    team: Team,
    user: OfUser = None,
    pool: OfPool = None,
    output: Output = Format.TABLE,
) -> None:
    """Set how many GPUs each user of a team may use at once, or one user with --user.

    Jobs beyond it wait with the reason user_cap_reached. Running jobs go on.
    """
    cap_mgpu = None if most == _NONE else mgpu_of(most, "GPUS")
    api = open_api(ctx)
    found = _found(api, team, user, pool)
    if found is not None:
        shown = api.patch(
            f"user-caps/{found['id']}", {"cap_mgpu": cap_mgpu}, if_match=f'"v{found["version"]}"'
        )
    else:
        body = {"team": team, "user": user, "pool": pool, "cap_mgpu": cap_mgpu}
        shown = api.post("user-caps", body, key=str(uuid.uuid4()))
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    of, where = _scope(shown)
    print_fields([("team", shown["team"]), ("user", of), ("pool", where), ("at once", _cap(shown))])


@caps_app.command("remove")
def caps_remove(ctx: typer.Context, team: Team, user: OfUser = None, pool: OfPool = None) -> None:
    """Remove a cap."""
    api = open_api(ctx)
    found = _found(api, team, user, pool)
    if found is None:
        raise CliError("There is no such cap. `tidegate caps list` shows them.")
    api.delete(f"user-caps/{found['id']}", if_match=f'"v{found["version"]}"')
    tell("Removed the cap.")


def _found(api: Api, team: str, user: str | None, pool: str | None) -> dict[str, Any] | None:
    caps = api.items("user-caps", most=_CAPS_MAX, team=team)
    return next((one for one in caps if (one["user"], one["pool"]) == (user, pool)), None)


def _scope(cap: Mapping[str, Any]) -> tuple[str, str]:
    return cap["user"] or "each", cap["pool"] or "all"


def _cap(cap: Mapping[str, Any]) -> str:
    return _NONE if cap["cap_mgpu"] is None else gpus(cap["cap_mgpu"])
