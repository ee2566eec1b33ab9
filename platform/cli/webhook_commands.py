"""`tidegate notify webhooks`: addresses to which events are posted."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import typer

from cli.api import Api
from cli.context import Commands, open_api
from cli.errors import CliError
from cli.output import Format, Output, plain, print_data, print_fields, print_table, tell

webhooks_app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Post events to chats and programs."
)

_LISTED_MAX = 1_000

WebhookName = Annotated[str, typer.Argument(help="Name, or the beginning of the id.")]


@webhooks_app.command("list")
def webhooks_list(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List your webhooks, and those of nodes whose members you manage."""
    found = _all(open_api(ctx))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No webhooks.")
        return
    print_table(
        ["NAME", "NODE", "KIND", "ADDRESS", "EVENTS", "STATE"],
        [
            [
                plain(each["name"]),
                each["node"] or "mine",
                each["kind"],
                each["address"],
                ",".join(each["events"]),
                _state(each),
            ]
            for each in found
        ],
        squeeze="EVENTS",
    )


@webhooks_app.command("add")
def webhooks_add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name.")],
    url: Annotated[str, typer.Argument(help="https:// address; a secret.")],
    event: Annotated[list[str], typer.Option("--event", help="An event; repeat it for more.")],
    kind: Annotated[str, typer.Option(help="slack, teams or signed.")] = "signed",
    node: Annotated[
        str | None, typer.Option(help="Events of this node. Default: your own notices.")
    ] = None,
) -> None:
    """Post events to an address from now on. The secret of a signed webhook is printed once."""
    body = {"name": name, "url": url, "kind": kind, "events": event, "node": node}
    _print_secret(open_api(ctx).post("webhooks", body, key=str(uuid4())))


@webhooks_app.command("set")
def webhooks_set(
    ctx: typer.Context,
    webhook: WebhookName,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    url: Annotated[str | None, typer.Option(help="Another address.")] = None,
    event: Annotated[
        list[str] | None, typer.Option("--event", help="The events from now on.")
    ] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it gets events.")
    ] = None,
) -> None:
    """Change, disable or enable a webhook."""
    changes = {"name": name, "url": url, "events": event, "is_enabled": enabled}
    body = {field: value for field, value in changes.items() if value is not None}
    if not body:
        raise CliError("Nothing to change: give --name, --url, --event, --enable or --disable.")
    api = open_api(ctx)
    found = _named(api, webhook)
    changed = api.patch(f"webhooks/{found['id']}", body, if_match=f'"v{found["version"]}"')
    tell(f"{changed['name']}: {_state(changed)}")


@webhooks_app.command("rotate")
def webhooks_rotate(ctx: typer.Context, webhook: WebhookName) -> None:
    """Replace the secret. For 24 hours messages have signatures by both."""
    api = open_api(ctx)
    _print_secret(api.post(f"webhooks/{_named(api, webhook)['id']}/secret"))


@webhooks_app.command("test")
def webhooks_test(ctx: typer.Context, webhook: WebhookName) -> None:
    """Send a test message. See `deliveries` for the outcome."""
    api = open_api(ctx)
    found = _named(api, webhook)
    api.post(f"webhooks/{found['id']}/test")
    tell(f"A test message to {found['name']} is on its way.")


@webhooks_app.command("deliveries")
def webhooks_deliveries(
    ctx: typer.Context,
    webhook: WebhookName,
    state: Annotated[
        str | None, typer.Option(help="Only pending, sending, sent or failed ones.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="Number of messages.")] = 50,
    output: Output = Format.TABLE,
) -> None:
    """List the messages to a webhook, newest first."""
    api = open_api(ctx)
    path = f"webhooks/{_named(api, webhook)['id']}/deliveries"
    found = list(api.items(path, most=limit, state=state))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No messages.")
        return
    print_table(
        ["ID", "AT", "EVENT", "STATE", "TRIES", "STATUS", "MS", "ERROR"],
        [
            [
                each["id"],
                each["created_at"],
                each["event"],
                each["state"],
                each["attempts"],
                each["status_code"],
                each["duration_ms"],
                plain(each["error"]),
            ]
            for each in found
        ],
        squeeze="ERROR",
    )


@webhooks_app.command("replay")
def webhooks_replay(
    ctx: typer.Context, delivery: Annotated[str, typer.Argument(help="Id of the message.")]
) -> None:
    """Send a message again, with the same id."""
    open_api(ctx).post(f"webhook-deliveries/{delivery}/replay")
    tell("The message is on its way again.")


@webhooks_app.command("remove")
def webhooks_remove(ctx: typer.Context, webhook: WebhookName) -> None:
    """Remove a webhook with its messages."""
    api = open_api(ctx)
    found = _named(api, webhook)
    api.delete(f"webhooks/{found['id']}")
    tell(f"Removed {found['name']}.")


def _all(api: Api) -> list[dict[str, Any]]:
    return list(api.items("webhooks", most=_LISTED_MAX))


def _named(api: Api, wanted: str) -> dict[str, Any]:
    """Return the webhook with this name, or whose id begins so."""
    every = _all(api)
    found = [each for each in every if each["name"] == wanted]
    found = found or [each for each in every if each["id"].startswith(wanted)]
    if len(found) != 1:
        names = ", ".join(plain(each["name"]) for each in every) or "none"
        raise CliError(f"{len(found)} webhooks match {wanted!r}. There are: {names}.")
    return found[0]


def _state(webhook: dict[str, Any]) -> str:
    if webhook["disabled_at"] is not None:
        return "disabled"
    return "ok" if webhook["failing_since"] is None else f"fails since {webhook['failing_since']}"


def _print_secret(webhook: dict[str, Any]) -> None:
    print_fields(
        [
            ("Name", webhook["name"]),
            ("Id", webhook["id"]),
            ("Address", webhook["address"]),
            ("Secret", webhook["secret"]),
        ]
    )
    if webhook["secret"]:
        tell("Store the secret now; it is not shown again.")
