"""`tidegate members`: people and service accounts of a node, with roles, use and caps."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.moments import end_of_day, last_day
from cli.output import Format, Output, age, gpus, now_utc, print_data, print_table, tell
from cli.tree_commands import node_at
from primitives.units import gpu_hours

MEMBERS_MAX = 10_000
_GRANTS_MAX = 1_000
_INVITATIONS_MAX = 1_000
_NEVER = "never"

members_app = typer.Typer(
    no_args_is_help=True,
    help="Members of a team, department or organization: people, roles and use.",
    rich_markup_mode=None,
)

NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Its path; the last part is enough if unique.")
]
LoginArgument = Annotated[str, typer.Argument(metavar="LOGIN", help="Such as ana@ai-company.")]
MailArgument = Annotated[str, typer.Argument(metavar="MAIL", help="The invited address.")]
ExpiresOption = Annotated[
    str | None,
    typer.Option(
        "--expires",
        help="Last day of the role in UTC, or the time at which it ends; never: it does not.",
    ),
]


@members_app.command("list")
def members_list(ctx: typer.Context, node: NodeArgument, output: Output = Format.TABLE) -> None:
    """List the members of a node, and whether their use is that of the node."""
    api = open_api(ctx)
    at = node_at(api, node)
    found = list(api.items(f"tree/{at['id']}/members", most=MEMBERS_MAX))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No members.")
        return
    now = now_utc()
    print_table(
        ["LOGIN", "ROLE", "LAST DAY", "LAST ACTIVE", "IN USE", "BORROWED", "GPU-H"],
        [_row(member, at["path"], now) for member in found],
        squeeze="ROLE",
    )
    totals = api.get(f"tree/{at['id']}/member-totals")
    month = totals["people_month_mgpu_s"] + totals["service_accounts_month_mgpu_s"]
    used = ", ".join(
        f"{gpus(each['people_mgpu'] + each['service_accounts_mgpu'])} of {each['pool']}"
        for each in totals["pools"]
    )
    check = "equals" if totals["is_equal"] else "differs from"
    tell(
        f"In use: {used or 'none'}. This month: {gpu_hours(month)} GPU-h. "
        f"It {check} the usage of {at['path']}."
    )


@members_app.command("roles")
def members_roles(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List the roles, and what each may do."""
    found = open_api(ctx).get("roles")["items"]
    if output is not Format.TABLE:
        print_data(found, output)
        return
    print_table(
        ["ROLE", "MAY"], [[each["role"], each["sentence"]] for each in found], squeeze="MAY"
    )


@members_app.command("add")
def members_add(
    ctx: typer.Context,
    node: NodeArgument,
    login: LoginArgument,
    role: Annotated[str, typer.Option("--role", help="As in `members roles`.")] = "researcher",
    expires: ExpiresOption = None,
) -> None:
    """Give a person or service account a role on a node and everything below it."""
    api = open_api(ctx)
    at = node_at(api, node)
    body = {"user": login, "role": role, "node": at["path"], "expires_at": expiry(expires)}
    tell_role(api.post("role-grants", body, key=str(uuid.uuid4())))


@members_app.command("set")
def members_set(
    ctx: typer.Context,
    node: NodeArgument,
    login: LoginArgument,
    role: Annotated[str | None, typer.Option("--role", help="The new role.")] = None,
    of: Annotated[
        str | None, typer.Option("--of", help="The present role, of an account with several.")
    ] = None,
    expires: ExpiresOption = None,
) -> None:
    """Change the role of a member, or set or lift its expiry."""
    if role is None and expires is None:
        raise CliError("Nothing to change: give --role or --expires.")
    api = open_api(ctx)
    grant = _grant(api, node_at(api, node)["path"], login, of)
    body: dict[str, Any] = {} if role is None else {"role": role}
    if expires is not None:
        body["expires_at"] = expiry(expires)
    tell_role(api.patch(f"role-grants/{grant['id']}", body, if_match=f'"v{grant["version"]}"'))


@members_app.command("remove")
def members_remove(
    ctx: typer.Context,
    node: NodeArgument,
    login: LoginArgument,
    of: Annotated[
        str | None, typer.Option("--of", help="The role, of an account with several.")
    ] = None,
) -> None:
    """Remove a role that is set on a node. Jobs that run or wait go on."""
    api = open_api(ctx)
    grant = _grant(api, node_at(api, node)["path"], login, of)
    api.delete(f"role-grants/{grant['id']}")
    tell(f"{login} is no longer {grant['role']} in {grant['node']}. Jobs that run or wait go on.")


@members_app.command("invite")
def members_invite(
    ctx: typer.Context,
    node: NodeArgument,
    email: Annotated[str, typer.Argument(metavar="MAIL", help="Address of the person.")],
    role: Annotated[str, typer.Option("--role", help="As in `members roles`.")] = "researcher",
    name: Annotated[str | None, typer.Option("--name", help="Name of the person.")] = None,
    username: Annotated[
        str | None, typer.Option("--username", help="Default: made from the address.")
    ] = None,
    expires: ExpiresOption = None,
) -> None:
    """Invite a person without an account. The link of the invitation works for 7 days."""
    api = open_api(ctx)
    body = {
        "email": email,
        "role": role,
        "name": name,
        "username": username,
        "role_expires_at": expiry(expires),
    }
    address = f"tree/{node_at(api, node)['id']}/invitations"
    tell_invitation(api, api.post(address, body, key=str(uuid.uuid4())))


@members_app.command("invitations")
def members_invitations(
    ctx: typer.Context, node: NodeArgument, output: Output = Format.TABLE
) -> None:
    """List the open invitations to a node."""
    api = open_api(ctx)
    found = _invitations(api, node)
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No open invitations.")
        return
    print_table(
        ["MAIL", "USERNAME", "ROLE", "INVITED BY", "EXPIRES"],
        [
            [
                each["email"],
                each["username"],
                each["role"],
                each["invited_by"],
                each["expires_at"][:10],
            ]
            for each in found
        ],
        squeeze="MAIL",
    )


@members_app.command("resend")
def members_resend(ctx: typer.Context, node: NodeArgument, email: MailArgument) -> None:
    """Send an invitation again. Its earlier link ends."""
    api = open_api(ctx)
    address = f"invitations/{_invitation(api, node, email)['id']}/resend"
    tell_invitation(api, api.post(address, None, key=str(uuid.uuid4())))


@members_app.command("withdraw")
def members_withdraw(ctx: typer.Context, node: NodeArgument, email: MailArgument) -> None:
    """Withdraw an invitation."""
    api = open_api(ctx)
    api.delete(f"invitations/{_invitation(api, node, email)['id']}")
    tell(f"The invitation of {email} is withdrawn.")


def _invitations(api: Api, node: str) -> list[dict[str, Any]]:
    address = f"tree/{node_at(api, node)['id']}/invitations"
    return list(api.items(address, most=_INVITATIONS_MAX))


def _invitation(api: Api, node: str, email: str) -> dict[str, Any]:
    found = next((each for each in _invitations(api, node) if each["email"] == email), None)
    if found is None:
        raise CliError(f"{email} has no open invitation there; see `tidegate members invitations`.")
    return found


def tell_invitation(api: Api, sent: dict[str, Any]) -> None:
    """Say where an invitation was mailed, or print its link, which is shown once."""
    if sent["is_mailed"]:
        tell(f"The invitation was mailed to {sent['email']}.")
    elif sent["link"] is None:
        raise CliError("The link was shown before. Send the invitation again.")
    else:
        tell(f"For {sent['email']}, until {sent['expires_at']}. It is not shown again:")
        typer.echo(api.settings.server + sent["link"])


def _row(member: dict[str, Any], path: str, now: Any) -> list[str]:
    roles = [
        role["role"] if role["node"] == path else f"{role['role']} in {role['node']}"
        for role in member["roles"]
    ]
    ends = [role["expires_at"] for role in member["roles"] if role["expires_at"] is not None]
    borrowed = sum(use["borrowed_mgpu"] for use in member["use"])
    return [
        member["user"]["login"],
        ", ".join(roles) or "none",
        last_day(min(ends)) if ends else _NEVER,
        _NEVER if member["last_active_at"] is None else age(member["last_active_at"], now=now),
        gpus(borrowed + sum(use["guaranteed_mgpu"] for use in member["use"])),
        gpus(borrowed),
        gpu_hours(member["month_mgpu_s"]),
    ]


def expiry(text: str | None) -> str | None:
    """Return the time of `--expires`, or None for none and never."""
    return None if text in (None, _NEVER) else end_of_day(text, "--expires")


def _grant(api: Api, path: str, login: str, role: str | None) -> dict[str, Any]:
    """Return the only role of the account on the node. Raises CliError for none or several."""
    found = list(api.items("role-grants", most=_GRANTS_MAX, user=login, node=path, role=role))
    if not found:
        raise CliError(f"{login} has no such role on {path} itself; see `tidegate members list`.")
    if len(found) > 1:
        raise CliError(
            f"{login} has several roles on {path}: "
            f"{', '.join(each['role'] for each in found)}. Name one with --of."
        )
    return found[0]


def tell_role(grant: dict[str, Any]) -> None:
    """Print a role that was given or changed."""
    until = "" if grant["expires_at"] is None else f" until {grant['expires_at']}"
    tell(f"{grant['user']} is {grant['role']} in {grant['node']}{until}.")
