"""`tidegate notify`: which events reach me by which channel, and when mail comes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import Commands, open_api
from cli.errors import CliError
from cli.output import Format, Output, plain, print_data, print_fields, print_table, tell
from cli.webhook_commands import webhooks_app

notify_app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Choose which events reach you, how and when."
)

notify_app.add_typer(webhooks_app, name="webhooks")

_MAILS_MAX = 1_000
_DIGESTS = {
    "none": "at once, at most one mail a minute",
    "hourly": "at each full hour",
    "daily": "at 08:00",
}


@notify_app.command("list")
def notify_list(
    ctx: typer.Context,
    output: Output = Format.TABLE,
) -> None:
    """Show your channels of each event, and when mail comes. A star marks your own choices."""
    found = open_api(ctx).get("notices/preferences")
    if output is not Format.TABLE:
        print_data(found, output, rows="events")
        return
    _print_times(found)
    typer.echo()
    print_table(
        ["EVENT", "PORTAL", "MAIL"],
        [[each["event"], _mark(each, "portal"), _mark(each, "mail")] for each in found["events"]],
    )


@notify_app.command("set")
def notify_set(
    ctx: typer.Context,
    events: Annotated[list[str], typer.Argument(help="Events, or `all`.")],
    mail: Annotated[bool | None, typer.Option("--mail/--no-mail", help="By mail.")] = None,
    portal: Annotated[
        bool | None, typer.Option("--portal/--no-portal", help="In the portal.")
    ] = None,
) -> None:
    """Choose the channels of events, for example `job_started --mail`."""
    if mail is None and portal is None:
        raise CliError("Nothing to change: give --mail, --no-mail, --portal or --no-portal.")
    api = open_api(ctx)
    found, etag = api.get_tagged("notices/preferences")
    known = [each["event"] for each in found["events"]]
    wanted = known if events == ["all"] else events
    if unknown := [event for event in wanted if event not in known]:
        raise CliError(f"There is no event {unknown[0]!r}. Events are {', '.join(known)}.")
    channels = {"mail": mail, "portal": portal}
    given = {name: is_on for name, is_on in channels.items() if is_on is not None}
    body = {"events": [{"event": event, **given} for event in wanted]}
    api.patch("notices/preferences", body, if_match=etag)
    tell(f"Changed {len(wanted)} {'event' if len(wanted) == 1 else 'events'}.")


@notify_app.command("quiet")
def notify_quiet(
    ctx: typer.Context,
    hours: Annotated[str, typer.Argument(help="START-END such as 22:00-07:00, or `off`.")],
    zone: Annotated[str | None, typer.Option(help="Your time zone, such as Europe/Berlin.")] = None,
) -> None:
    """Choose hours of the day without mail. Mail of that time comes at their end."""
    start, _, end = hours.partition("-")
    body: dict[str, Any] = {"quiet_hours": None}
    if hours != "off":
        if not end:
            raise CliError("Give START-END, such as 22:00-07:00, or off.")
        body = {"quiet_hours": {"start": start, "end": end}}
    if zone is not None:
        body["time_zone"] = zone
    _change(open_api(ctx), body)


@notify_app.command("digest")
def notify_digest(
    ctx: typer.Context,
    digest: Annotated[str, typer.Argument(help="none, hourly or daily.")],
) -> None:
    """Choose when mail comes. Preemptions, time limits and silent clusters never wait for it."""
    _change(open_api(ctx), {"digest": digest})


@notify_app.command("weekly")
def notify_weekly(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="Path: ai-company/research/nlp.")],
    start: Annotated[
        str | None, typer.Option(help="Monday of the week. Default: the last whole week.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the figures that leads get each Monday, with the pages behind them."""
    found = open_api(ctx).get("history/week", node=node, start=start)
    if output is not Format.TABLE:
        print_data(found, output, rows="figures")
        return
    typer.echo(plain(found["sentence"]))
    print_table(
        ["FIGURE", "VALUE", "PAGE"],
        [[plain(each["title"]), each["value"], each["link"]] for each in found["figures"]],
    )


@notify_app.command("mails")
def notify_mails(
    ctx: typer.Context,
    state: Annotated[
        str | None, typer.Option(help="Only pending, sending, sent or failed ones.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MAILS_MAX, help="Number of mails.")] = 50,
    output: Output = Format.TABLE,
) -> None:
    """List the mails to you with their delivery, newest first."""
    found = list(open_api(ctx).items("notices/mails", most=limit, state=state))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No mails.")
        return
    print_table(
        ["AT", "STATE", "TRIES", "SUBJECT", "ERROR"],
        [
            [
                each["created_at"],
                each["state"],
                each["attempts"],
                plain(each["subject"]),
                plain(each["error"]),
            ]
            for each in found
        ],
        squeeze="SUBJECT",
    )


def _change(api: Api, body: dict[str, Any]) -> None:
    _, etag = api.get_tagged("notices/preferences")
    _print_times(api.patch("notices/preferences", body, if_match=etag))


def _print_times(found: dict[str, Any]) -> None:
    quiet = found["quiet_hours"]
    address = found["email"] or "none; no mail is sent to you"
    if not found["is_mail_configured"]:
        address = "no mail: the operator named no mail server"
    print_fields(
        [
            ("Address", address),
            ("Mail comes", _DIGESTS.get(found["digest"], found["digest"])),
            ("Quiet hours", "none" if quiet is None else f"{quiet['start']}-{quiet['end']}"),
            ("Time zone", found["time_zone"]),
        ]
    )


def _mark(choice: dict[str, Any], channel: str) -> str:
    is_on = choice[channel]
    star = "" if is_on == choice[f"{channel}_default"] else "*"
    return f"{'yes' if is_on else 'no'}{star}"
