"""`tidegate adjustments` and `tidegate disputes`: amounts beside use, and wrong charges."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.job_lookup import JOB_HELP, id_of_job
from cli.organizations import organization_named
from cli.output import Format, Output, plain, print_data, print_fields, print_table, tell
from primitives.currencies import money_text

_LISTED_MAX = 1_000
_AMOUNT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,2})?")
_AMOUNT_MAX_NANO = 10**18
_NANO = 1_000_000_000

adjustments_app = typer.Typer(
    no_args_is_help=True, help="Charges and credits beside use.", rich_markup_mode=None
)
disputes_app = typer.Typer(
    no_args_is_help=True, help="Disputes about charges, and refunds.", rich_markup_mode=None
)
Identifier = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it.")]
Note = Annotated[
    str, typer.Option("--note", help="Why. Required against the request of another person.")
]


@adjustments_app.command("list")
def adjustments_list(
    ctx: typer.Context,
    node: Annotated[str | None, typer.Option("--node", help="Only teams below this path.")] = None,
    pending: Annotated[
        bool, typer.Option("--pending", help="Only those that wait for a second person.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """List adjustments, newest first. An amount below 0 is a credit."""
    api = open_api(ctx)
    status = "pending" if pending else None
    found = list(api.items("adjustments", most=_LISTED_MAX, node=node, status=status))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No adjustments.")
        return
    print_table(
        ["ID", "MONTH", "TEAM", "AMOUNT", "CURRENCY", "STATUS", "BY", "REASON"],
        [
            [
                str(each["id"])[-8:],
                each["month"],
                each["team"],
                money_text(each["amount_nano"], each["currency"]),
                each["currency"],
                each["status"],
                each["asked_by"],
                plain(each["reason"]),
            ]
            for each in found
        ],
        squeeze="REASON",
    )


# An amount below 0 is refused with a sentence, and not as an unknown option.
@adjustments_app.command("add", context_settings={"ignore_unknown_options": True})
def adjustments_add(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Path of the team.")],
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="Such as 250 or 12.50.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, for the statement.")],
    credit: Annotated[
        bool, typer.Option("--credit", help="Credit the team instead of charging it.")
    ] = False,
    month: Annotated[
        str | None, typer.Option(metavar="MONTH", help="Such as 2026-11. Default: this month.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Login of a person.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Name of a pool.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Charge a team an amount beside its use, or credit it one.

    Above the threshold of the organization, a second person approves it within 7 days. Your other
    adjustments of the team and month count, too.
    """
    if amount.startswith("-"):
        raise CliError("Give an amount above 0. To credit the team, add --credit.")
    nano = _nano(amount)
    body = {
        "team": team,
        "amount_nano": -nano if credit else nano,
        "reason": reason,
        "month": month,
        "user": user,
        "pool": pool,
    }
    made = open_api(ctx).post("adjustments", body, key=str(uuid.uuid4()))
    _print_adjustment(made, output)


@adjustments_app.command("approve")
def adjustments_approve(
    ctx: typer.Context, adjustment: Identifier, note: Note = "", output: Output = Format.TABLE
) -> None:
    """Approve an adjustment that another person asked for."""
    api = open_api(ctx)
    path = f"adjustments/{_id(api, 'adjustments', adjustment, 'pending')}/approve"
    _print_adjustment(api.post(path, {"note": note}), output)


@adjustments_app.command("reject")
def adjustments_reject(
    ctx: typer.Context, adjustment: Identifier, note: Note = "", output: Output = Format.TABLE
) -> None:
    """Reject an adjustment that another person asked for, or withdraw your own."""
    api = open_api(ctx)
    path = f"adjustments/{_id(api, 'adjustments', adjustment, 'pending')}/reject"
    _print_adjustment(api.post(path, {"note": note}), output)


@adjustments_app.command("threshold")
def adjustments_threshold(
    ctx: typer.Context,
    amount: Annotated[
        str | None, typer.Argument(metavar="[AMOUNT]", help="Without it, only show it.")
    ] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", help="Its slug. Required if there are several.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show or change the amount above which adjustments need a second person.

    It is that of all adjustments that a person makes alone for a team and month. A raise counts for
    other persons only.
    """
    api = open_api(ctx)
    path = f"organizations/{organization_named(api, organization)['id']}/adjustment-policy"
    shown, tag = api.get_tagged(path)
    if amount is not None:
        shown = api.patch(path, {"threshold_nano": _nano(amount)}, if_match=tag)
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    print_fields(
        [
            ("organization", shown["organization"]),
            ("threshold", money_text(shown["threshold_nano"], None)),
            ("for you", money_text(shown["your_threshold_nano"], None)),
            ("changed by", shown["changed_by"] or "-"),
            ("changed at", shown["changed_at"] or "-"),
        ]
    )


@disputes_app.command("list")
def disputes_list(
    ctx: typer.Context,
    node: Annotated[str | None, typer.Option("--node", help="Only teams below this path.")] = None,
    is_open: Annotated[bool, typer.Option("--open", help="Only those that are open.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List disputes about charges, newest first."""
    api = open_api(ctx)
    status = "open" if is_open else None
    found = list(api.items("disputes", most=_LISTED_MAX, node=node, status=status))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No disputes.")
        return
    print_table(
        ["ID", "TEAM", "CHARGE", "CHARGED", "REFUND", "CURRENCY", "STATUS", "REASON"],
        [
            [
                str(each["id"])[-8:],
                each["team"],
                each["subject"],
                money_text(each["charged_nano"], each["currency"]),
                "-"
                if each["refund_nano"] is None
                else money_text(each["refund_nano"], each["currency"]),
                each["currency"],
                each["status"],
                plain(each["reason"]),
            ]
            for each in found
        ],
        squeeze="REASON",
    )


@disputes_app.command("open")
def disputes_open(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option("--reason", help="Why the charge is wrong.")],
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help=JOB_HELP)] = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Its number. Default: the last one.")
    ] = None,
    team: Annotated[
        str | None, typer.Option("--team", help="Path of a team, instead of a job.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="Pool that it was charged for.")
    ] = None,
    month: Annotated[
        str | None, typer.Option("--month", metavar="MONTH", help="Such as 2026-10, which is over.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Dispute the charge of an attempt that has ended, or of a team's pool in a month.

    Give a job, or else --team, --pool and --month.
    """
    api = open_api(ctx)
    if job is None:
        body = {"team": team, "pool": pool, "month": month, "reason": reason}
        if attempt is not None or None in body.values():
            raise CliError("Give a job, or else --team, --pool and --month.")
    elif (team, pool, month) != (None, None, None):
        raise CliError("Give a job, or --team, --pool and --month, and not both.")
    else:
        body = {"attempt": _attempt_id(api, job, attempt), "reason": reason}
    _print_dispute(api.post("disputes", body, key=str(uuid.uuid4())), output)


def _attempt_id(api: Api, job: str, attempt: int | None) -> str:
    """Return the id of an attempt of a job, of the last one without a number."""
    job_id = id_of_job(api, job)
    attempts = api.get(f"jobs/{job_id}/attempts")["items"]
    wanted = [one for one in attempts if attempt in (None, one["number"])]
    if not wanted:
        raise CliError(f"Job {job_id} has no such attempt.")
    return str(max(wanted, key=lambda one: int(one["number"]))["id"])


@disputes_app.command("accept")
def disputes_accept(
    ctx: typer.Context,
    dispute: Identifier,
    refund: Annotated[
        str | None, typer.Option("--refund", help="Such as 12.50. Default: the whole charge.")
    ] = None,
    note: Annotated[str, typer.Option("--note", help="A note for the person.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Refund a disputed charge, in full or in part."""
    api = open_api(ctx)
    body = {"refund_nano": None if refund is None else _nano(refund), "note": note}
    path = f"disputes/{_id(api, 'disputes', dispute, 'open')}/accept"
    _print_dispute(api.post(path, body), output)


@disputes_app.command("decline")
def disputes_decline(
    ctx: typer.Context, dispute: Identifier, note: Note = "", output: Output = Format.TABLE
) -> None:
    """Decline a dispute with a note, or withdraw your own."""
    api = open_api(ctx)
    path = f"disputes/{_id(api, 'disputes', dispute, 'open')}/decline"
    _print_dispute(api.post(path, {"note": note}), output)


def _print_adjustment(shown: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    print_fields(
        [
            ("adjustment", shown["id"]),
            ("team", shown["team"]),
            ("month", shown["month"]),
            ("amount", _amount(shown, "amount_nano")),
            ("status", shown["status"]),
        ]
    )
    if shown["status"] == "pending":
        tell(f"A second person with finance rights approves it until {shown['expires_at']}.")


def _print_dispute(shown: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    fields = [
        ("dispute", shown["id"]),
        ("charge", shown["subject"]),
        ("charged", _amount(shown, "charged_nano")),
        ("status", shown["status"]),
    ]
    if shown["refund_nano"] is not None:
        fields.append(("refund", _amount(shown, "refund_nano")))
    if shown["note"]:
        fields.append(("note", plain(shown["note"])))
    print_fields(fields)


def _amount(shown: Mapping[str, Any], name: str) -> str:
    return f"{money_text(shown[name], shown['currency'])} {shown['currency']}"


def _nano(text: str) -> int:
    """Return a typed amount in nano-currency, exactly. Raises CliError."""
    if not _AMOUNT.fullmatch(text):
        raise CliError(
            f"{text[:40]!r} is not an amount. Write digits with a point and at most two decimals, "
            "such as 12.50."
        )
    nano = int(Decimal(text) * _NANO)
    if nano > _AMOUNT_MAX_NANO:
        raise CliError("An amount is at most 1,000,000,000 of the currency.")
    return nano


def _id(api: Api, kind: str, given: str, status: str) -> str:
    """Return the id that is given in full, or by its end among those with the status."""
    try:
        return str(uuid.UUID(given))
    except ValueError:
        pass
    waiting = api.items(kind, most=_LISTED_MAX, status=status)
    found = [str(each["id"]) for each in waiting if str(each["id"]).endswith(given.lower())]
    if len(found) != 1 or not given:
        raise CliError(
            f"{len(found) if given else 'No'} {status} {kind} end with {given[:40]!r}; "
            f"`tidegate {kind} list` lists them."
        )
    return found[0]
