"""`tidegate second-factor`: second factors of people, and organizations that require one."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.context import open_api
from cli.identity_commands import OrganizationOption
from cli.organizations import organization_named
from cli.output import Format, Output, print_data, print_fields, tell
from cli.people_commands import user_named

second_factor_app = typer.Typer(
    no_args_is_help=True,
    help="Second factors beside passwords. Add and remove your own on the page My access.",
    rich_markup_mode=None,
)


@second_factor_app.command("show")
def show(
    ctx: typer.Context,
    user: Annotated[str | None, typer.Option(help="Login of a person whom you manage.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the second factors of a person: your own, unless --user is given."""
    found = open_api(ctx).get("second-factors", user=user)
    if output is not Format.TABLE:
        print_data(found, output)
        return
    app = found["authenticator_app"]
    print_fields(
        [
            ("Person", found["user"]),
            ("Authenticator app", "none" if app is None else f"since {app['created_at']}"),
            ("Security keys", ", ".join(each["name"] for each in found["security_keys"]) or "none"),
            ("Recovery codes left", str(found["recovery_codes_left"])),
            ("Required", "yes" if found["is_required"] else "no"),
        ]
    )


@second_factor_app.command("reset")
def reset(
    ctx: typer.Context,
    login: Annotated[str, typer.Argument(help="Login of a person whom you manage.")],
) -> None:
    """Remove all second factors of a person who lost them. The person's sessions end."""
    api = open_api(ctx)
    api.post(f"users/{user_named(api, login)['id']}/second-factors/reset")
    tell(f"The second factors of {login} are removed, and the sessions have ended.")


@second_factor_app.command("require")
def require(
    ctx: typer.Context,
    organization: OrganizationOption = None,
    required: Annotated[
        bool, typer.Option("--on/--off", help="Whether a password needs a second factor.")
    ] = True,
) -> None:
    """Require a second factor of people who sign in with a password, or stop requiring it.

    Tokens, service accounts and people of an identity provider are not affected.
    """
    api = open_api(ctx)
    found = organization_named(api, organization)
    address = f"organizations/{found['id']}/sign-in-policy"
    _, etag = api.get_tagged(address)
    api.put(address, {"requires_second_factor": required}, if_match=etag)
    if required:
        tell("People who sign in with a password must add a second factor first.")
    else:
        tell("A password is enough to sign in.")
