"""Commands for the names of users on a cluster, and for accepted differences of its quotas."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.fleet_commands import ClusterArgument, address_of
from cli.output import Format, Output, print_data, print_table, tell

_USERS_MAX = 100_000
_DIFFERENCES_MAX = 10_000

UserArgument = Annotated[str, typer.Argument(help="Such as alice@ai-company.")]


def cluster_users(ctx: typer.Context, name: ClusterArgument, output: Output = Format.TABLE) -> None:
    """List the users of a cluster with their names there. For platform administrators."""
    api = open_api(ctx)
    found = list(api.items(address_of(api, "cluster", name) + "/users", most=_USERS_MAX))
    if output is not Format.TABLE:
        print_data(found, output)
    elif found:
        print_table(["USER", "NAME"], [[each["user"], each["name"]] for each in found])
    else:
        tell(f"Nobody has a name on {name} yet.")


def cluster_map(
    ctx: typer.Context,
    name: ClusterArgument,
    user: UserArgument,
    name_there: Annotated[str, typer.Argument(help="UNIX name of the user on the cluster.")],
) -> None:
    """Give a user a name on a cluster, in place of an earlier one."""
    api = open_api(ctx)
    body = {"user": user, "name": name_there}
    api.put(address_of(api, "cluster", name) + "/users", body)
    tell(f"Jobs of {user} run on {name} as {name_there}.")


def cluster_unmap(ctx: typer.Context, name: ClusterArgument, user: UserArgument) -> None:
    """Remove the name of a user on a cluster. New jobs of the user start elsewhere.

    Running jobs continue.
    """
    api = open_api(ctx)
    address = address_of(api, "cluster", name) + "/users"
    for each in api.items(address, most=_USERS_MAX):
        if each["user"] == user:
            api.delete(f"{address}/{each['id']}")
            tell(f"New jobs of {user} do not start on {name}.")
            return
    raise CliError(f"{user} has no name on {name}. `tidegate cluster users {name}` lists them.")


def cluster_accepted(
    ctx: typer.Context,
    name: ClusterArgument,
    withdraw: Annotated[
        int | None, typer.Option(help="Id of an acceptance to withdraw: pushes change it again.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """List accepted differences between a cluster and the quotas. Pushes leave them as they are."""
    api = open_api(ctx)
    address = address_of(api, "cluster", name) + "/accepted-differences"
    if withdraw is not None:
        api.delete(f"{address}/{withdraw}")
        tell("The next comparison shows it again, and the next push changes it.")
        return
    found = list(api.items(address, most=_DIFFERENCES_MAX))
    if output is not Format.TABLE:
        print_data(found, output)
    elif found:
        print_table(
            ["ID", "SUBJECT", "ON THE CLUSTER", "BY THE TREE", "ACCEPTED BY"],
            [
                [
                    each["id"],
                    each["subject"],
                    _settings(each["before"]),
                    _settings(each["after"]),
                    each["accepted_by"],
                ]
                for each in found
            ],
        )
    else:
        tell(f"No differences of {name} are accepted.")


def _settings(side: dict[str, Any]) -> str:
    shown = [f"{name}={'none' if value is None else value}" for name, value in side.items()]
    return ", ".join(shown) or "-"
