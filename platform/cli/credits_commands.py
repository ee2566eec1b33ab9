"""`tidegate credits`: balances, statements, and the credit bank of an organization."""

from __future__ import annotations

import re
import uuid
from datetime import datetime
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.organizations import organization_named
from cli.output import (
    Format,
    Output,
    gpus,
    now_utc,
    plain,
    print_data,
    print_fields,
    print_table,
    tell,
)
from cli.submitting import seconds

_POOLS_MAX = 1_000
_UGPU_S_PER_TENTH_GPU_HOUR = 360_000_000
_DAY_S = 86_400
_TRANSFERS_MAX = 1_000
_JOBS_SHOWN = 5
_RANGE = ("low", "middle", "high")
#: GPU-hours with at most three decimals.
_AMOUNT = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?")
_UGPU_S_PER_GPU_HOUR = 3_600_000_000
#: What a line of a statement is, by its kind: for credits that come in, and for those that go.
_LINES = {
    "lent": ("lent to {}", "borrowed from {}"),
    "common": ("", "borrowed GPUs without a guarantee"),
    "above_cap": ("", "borrowed from teams at their cap"),
    "expired": ("", "expired"),
    "dividend": ("dividend", ""),
    "transferred": ("transferred from {}", "transferred to {}"),
    "correction": ("correction, back from {}", "correction, back to {}"),
    "refund": ("refund from {}", "refund to {}"),
}

credits_app = typer.Typer(
    no_args_is_help=True,
    help="Credits earned by lending and paid for borrowing.",
    rich_markup_mode=None,
)

OfPool = Annotated[
    str | None, typer.Option("--pool", help="The pool. Required if there are several.")
]
OfOrganization = Annotated[
    str | None,
    typer.Option("--organization", help="Its slug. Required if there are several."),
]


@credits_app.command("list")
def credits_list(
    ctx: typer.Context,
    pool: OfPool = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """List the credits of all teams in a pool, in their order for spare GPUs.

    Balances are GPU-hours of the reference GPU. DAYS is the balance over the team's guarantee.
    Teams are ordered by rank, and in one rank by DAYS. All balances sum to 0.
    """
    api = open_api(ctx)
    found = api.get(
        "credits",
        organization=organization_named(api, organization)["slug"],
        pool=_pool(api, pool),
    )
    if output is not Format.TABLE:
        print_data(found, output, rows="teams")
        return
    if not found["is_on"]:
        tell(f"The credit bank of {found['organization']} is off.")
    print_table(
        ["TEAM", "GUARANTEED", "DAYS", "BALANCE", "FLOOR", "CAP"],
        [
            [
                each["team"],
                gpus(each["guaranteed_mgpu"]),
                _days(each),
                *(_hours(each[name]) for name in ("balance_ugpu_s", "floor_ugpu_s", "cap_ugpu_s")),
            ]
            for each in found["teams"]
        ]
        + [["(common account)", "", "", _hours(found["common_ugpu_s"]), "", ""]],
        squeeze="TEAM",
        keep_end=True,
    )
    tell(_settled(found["settled_until"]))


def _settled(until: str | None) -> str:
    """Return until when use is settled. A new bank begins at the next quarter of an hour."""
    if until is None:
        return "Nothing is settled yet."
    if datetime.fromisoformat(until) > now_utc():
        return f"Use is settled from {plain(until)} on. Nothing is settled yet."
    return f"Settled until {plain(until)}."


@credits_app.command("statement")
def credits_statement(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Path of the team.")],
    pool: OfPool = None,
    month: Annotated[
        str | None, typer.Option(metavar="MONTH", help="Such as 2026-11. Default: this month.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show a team's credits of a month: who paid for what, in GPU-hours of the reference GPU.

    EXPIRES is the last day of what a line earned. REASON is why an interval was corrected, credits
    came back, or credits were transferred. Below are the jobs with the most borrowed use.
    """
    api = open_api(ctx)
    asked = {"team": team, "pool": _pool(api, pool), "month": month}
    if csv:
        text = api.get_text("credits/statement", **asked, format="csv")
        typer.echo(text, nl=not text.endswith("\n"))
        return
    found = api.get("credits/statement", **asked)
    if output is not Format.TABLE:
        print_data(found, output, rows="lines")
        return
    # A month without reasons or expiries has no column for them.
    more = [
        (header, name)
        for header, name in (("EXPIRES", "expires_on"), ("REASON", "reason"))
        if any(each[name] for each in found["lines"])
    ]
    has_reasons = ("REASON", "reason") in more
    blank = [""] * len(more)
    print_table(
        ["DAY", "ENTRY", "AMOUNT", "BALANCE", *(header for header, _ in more)],
        [
            ["", "opening balance", "", _hours(found["opening_ugpu_s"]), *blank],
            *(
                [
                    each["day"],
                    _entry(each),
                    _hours(each["amount_ugpu_s"]),
                    _hours(each["balance_ugpu_s"]),
                    *(each[name] or "" for _, name in more),
                ]
                for each in found["lines"]
            ),
            ["", "closing balance", "", _hours(found["closing_ugpu_s"]), *blank],
        ],
        squeeze="REASON" if has_reasons else "ENTRY",
        keep_end=not has_reasons,
    )
    largest = sorted(found["borrowing"], key=lambda each: -each["amount_ugpu_s"])
    for each in largest[:_JOBS_SHOWN]:
        tell(
            f"{each['job_name']}, attempt {each['attempt']}, borrowed "
            f"{_hours(each['amount_ugpu_s'])} GPU-hours on {each['day']} (job {each['job']})."
        )
    for each in found["notices"][:3]:
        tell(
            f"Notice of {each['given_at']}: {_hours(each['amount_ugpu_s'])} GPU-hours expire after"
            f" {each['last_day']}."
        )
    for each in found["expiring"][:3]:
        tell(f"{_hours(each['amount_ugpu_s'])} GPU-hours expire after {each['last_day']}.")


@credits_app.command("history")
def credits_history(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Path of the team.")],
    pool: OfPool = None,
    month: Annotated[
        str | None, typer.Option(metavar="MONTH", help="Such as 2026-11. Default: this month.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a team's balance at the end of each day of a month, and what the month may end with.

    BALANCE is GPU-hours of the reference GPU. The range has the results of all methods.
    """
    api = open_api(ctx)
    found = api.get("credits/history", team=team, pool=_pool(api, pool), month=month)
    if output is not Format.TABLE:
        print_data(found, output, rows="days")
        return
    print_table(
        ["DAY", "BALANCE"],
        [
            ["", _hours(found["opening_ugpu_s"])],
            *([each["day"], _hours(each["balance_ugpu_s"])] for each in found["days"]),
        ],
        keep_end=True,
    )
    tell(f"Floor {_hours(found['floor_ugpu_s'])}, cap {_hours(found['cap_ugpu_s'])} GPU-hours.")
    on_hold = found["held_ugpu_s"] + found["pending_ugpu_s"]
    if on_hold:
        available = _hours(found["balance_ugpu_s"] - on_hold)
        tell(f"On hold: {_hours(on_hold)} GPU-hours. Available: {available} GPU-hours.")
    forecast = found["forecast"]
    if forecast is not None:
        low, middle, high = (_hours(forecast[f"{name}_ugpu_s"]) for name in _RANGE)
        tell(f"Forecast for {forecast['last_day']}: {middle} GPU-hours ({low} to {high}).")


@credits_app.command("bank")
def credits_bank(
    ctx: typer.Context,
    switch: Annotated[
        str | None, typer.Argument(metavar="[on|off]", help="Without it, only show the bank.")
    ] = None,
    organization: OfOrganization = None,
    cap: Annotated[
        str | None, typer.Option(help="Highest balance, as time of the guarantee: 14d.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show or change the credit bank of an organization.

    Use before the bank is switched on is never settled. While it is off, balances stay.
    """
    if switch not in (None, "on", "off"):
        raise CliError(f"Say on or off, not {switch!r}.")
    api = open_api(ctx)
    path = f"organizations/{organization_named(api, organization)['id']}/credit-bank"
    shown, tag = api.get_tagged(path)
    body: dict[str, Any] = {} if switch is None else {"is_on": switch == "on"}
    if cap is not None:
        body["cap_s"] = seconds(cap, "--cap")
    if body:
        shown = api.patch(path, body, if_match=tag)
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    print_fields(
        [
            ("organization", shown["organization"]),
            ("bank", "on" if shown["is_on"] else "off"),
            ("cap", f"{shown['cap_s'] / _DAY_S:g} days of guarantee"),
            ("floor", f"-{shown['floor_s'] / _DAY_S:g} days of guarantee"),
            ("switched", shown["switched_at"]),
        ]
    )


@credits_app.command("transfer")
def credits_transfer(
    ctx: typer.Context,
    sender: Annotated[str, typer.Argument(metavar="FROM", help="Path of the team that pays.")],
    recipient: Annotated[str, typer.Argument(metavar="TO", help="Path of the other team.")],
    amount: Annotated[str, typer.Argument(metavar="GPU-HOURS", help="Such as 500 or 12.5.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, for both statements.")],
    pool: OfPool = None,
    output: Output = Format.TABLE,
) -> None:
    """Transfer credits to another team.

    Inside a department its administrator transfers at once. Across departments the transfer waits
    for an administrator of the other department or of the organization, and expires after 7 days.
    """
    given = _AMOUNT.fullmatch(amount)
    if given is None:
        raise CliError(f"Give GPU-hours such as 500 or 12.5, not {amount[:40]!r}.")
    thousandths = int(given[1]) * 1_000 + int((given[2] or "").ljust(3, "0"))
    api = open_api(ctx)
    made = api.post(
        "credits/transfers",
        {
            "sender": sender,
            "recipient": recipient,
            "pool": _pool(api, pool),
            "amount_ugpu_s": thousandths * _UGPU_S_PER_GPU_HOUR // 1_000,
            "reason": reason,
        },
        key=str(uuid.uuid4()),
    )
    _print_transfer(made, output)


@credits_app.command("transfers")
def credits_transfers(
    ctx: typer.Context,
    pending: Annotated[
        bool, typer.Option("--pending", help="Only those that wait for approval.")
    ] = False,
    team: Annotated[str | None, typer.Option("--team", help="Path of one of both teams.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List transfers of credits, newest first. Amounts are GPU-hours of the reference GPU."""
    api = open_api(ctx)
    found = list(
        api.items(
            "credits/transfers",
            most=_TRANSFERS_MAX,
            status="pending" if pending else None,
            team=team,
        )
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No transfers.")
        return
    print_table(
        ["ID", "POOL", "FROM", "TO", "AMOUNT", "STATUS", "BY", "REASON"],
        [
            [
                str(each["id"])[-8:],
                each["pool"],
                each["sender"],
                each["recipient"],
                _hours(each["amount_ugpu_s"]),
                each["status"],
                each["asked_by"],
                plain(each["reason"]),
            ]
            for each in found
        ],
        squeeze="REASON",
    )


@credits_app.command("approve")
def credits_approve(
    ctx: typer.Context,
    transfer: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it.")],
    note: Annotated[str, typer.Option("--note", help="A note for the person who asked.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Approve a transfer that another person asked for."""
    api = open_api(ctx)
    path = f"credits/transfers/{_transfer_id(api, transfer)}/approve"
    _print_transfer(api.post(path, {"note": note}), output)


@credits_app.command("reject")
def credits_reject(
    ctx: typer.Context,
    transfer: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it.")],
    note: Annotated[
        str, typer.Option("--note", help="Why. Required for the transfer of another person.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Reject a transfer that another person asked for, or withdraw your own."""
    api = open_api(ctx)
    path = f"credits/transfers/{_transfer_id(api, transfer)}/reject"
    _print_transfer(api.post(path, {"note": note}), output)


def _print_transfer(shown: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    fields = [
        ("transfer", shown["id"]),
        ("from", shown["sender"]),
        ("to", shown["recipient"]),
        ("amount", f"{_hours(shown['amount_ugpu_s'])} GPU-hours in {shown['pool']}"),
        ("status", shown["status"]),
    ]
    if shown["status"] == "pending":
        fields.append(("expires", shown["expires_at"]))
    if shown["decided_by"] is not None:
        fields.append(("decided by", shown["decided_by"]))
    if shown["note"]:
        fields.append(("note", plain(shown["note"])))
    print_fields(fields)


def _transfer_id(api: Api, given: str) -> str:
    """Return the id of the transfer with this id, or of the pending one whose id ends like this."""
    try:
        return str(uuid.UUID(given))
    except ValueError:
        pass
    pending = api.items("credits/transfers", most=_TRANSFERS_MAX, status="pending")
    found = [str(each["id"]) for each in pending if str(each["id"]).endswith(given.lower())]
    if len(found) != 1 or not given:
        ending = f"{len(found)} transfers end" if found and given else "No pending transfer ends"
        raise CliError(f"{ending} with {given[:40]!r}; `tidegate credits transfers` lists them.")
    return found[0]


def _entry(line: dict[str, Any]) -> str:
    comes, goes = _LINES[line["kind"]]
    return (comes if line["amount_ugpu_s"] > 0 else goes).format(line["other"])


def _hours(ugpu_s: int) -> str:
    """Return credits as GPU-hours with one decimal, rounded towards zero."""
    tenths = abs(ugpu_s) // _UGPU_S_PER_TENTH_GPU_HOUR
    sign = "-" if ugpu_s < 0 and tenths else ""
    return f"{sign}{tenths // 10:,}.{tenths % 10}"


def _days(team: dict[str, Any]) -> str:
    if not team["guaranteed_mgpu"]:
        return "-"
    tenths = team["tenths"]
    return f"{'-' if tenths < 0 else ''}{abs(tenths) // 10}.{abs(tenths) % 10}"


def _pool(api: Api, name: str | None) -> str:
    if name is not None:
        return name
    found = [str(one["name"]) for one in api.items("pools", most=_POOLS_MAX)]
    if len(found) == 1:
        return found[0]
    raise CliError(f"Choose a pool with --pool: {', '.join(found[:10]) or 'there is none yet'}.")
