"""`tidegate requests`: ask for more, offer to lend, and decide."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.budget_amounts import UNITS, integer_of
from cli.budget_commands import budget_named
from cli.change_commands import mgpu_of, print_preview
from cli.context import open_api
from cli.errors import CliError
from cli.moments import moment
from cli.output import Format, Output, gpus, plain, print_data, print_fields, print_table, tell
from cli.policy_commands import class_named

_LISTED_MAX = 1_000

requests_app = typer.Typer(
    no_args_is_help=True, help="Requests for changes, and decisions.", rich_markup_mode=None
)
Identifier = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the person who decides.")]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="When it is reverted: 2026-11-27T18:00:00Z."),
]
Begin = Annotated[
    str | None,
    typer.Option("--begin", metavar="TIME", help="When it is made. Default: at its approval."),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="NODE=GPUS",
        help="A sibling that gives, such as vision=16. The parent's reserve gives the rest.",
    ),
]
Note = Annotated[str, typer.Option("--note", help="A note for the person who asked.")]


class View(StrEnum):
    """The requests of a list."""

    TO_DECIDE = "to_decide"
    MINE = "mine"
    DECIDED = "decided"


@requests_app.command("list")
def requests_list(
    ctx: typer.Context,
    view: Annotated[
        View | None, typer.Option("--view", help="Default: all that you may see.")
    ] = None,
    node: Annotated[str | None, typer.Option("--node", help="Only below this path.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only this status, for example rejected.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only decided then or later: 2026-11-01T00:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only decided before.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List requests, newest first."""
    api = open_api(ctx)
    asked = {
        "view": view,
        "node": node,
        "status": status,
        "decided_since": since,
        "decided_until": until,
    }
    found = list(api.items("requests", most=_LISTED_MAX, **asked))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No requests.")
        return
    print_table(
        ["ID", "REQUEST", "NODE", "BY", "STATUS", "REASON"],
        [
            [
                str(each["id"])[-8:],
                each["title"],
                each["node"],
                each["asked_by"],
                each["status"],
                plain(each["reason"]),
            ]
            for each in found
        ],
        squeeze="REASON",
    )


@requests_app.command("show")
def requests_show(ctx: typer.Context, request: Identifier, output: Output = Format.TABLE) -> None:
    """Show a request with its counter-offers, comments and possible sources."""
    api = open_api(ctx)
    _print(api.get(f"requests/{_id(api, request)}"), output)


@requests_app.command("new")
def requests_new(
    ctx: typer.Context,
    reason: Reason,
    node: Annotated[
        str | None, typer.Argument(metavar="[NODE]", help="Path of the node. Not for a budget.")
    ] = None,
    guarantee: Annotated[
        str | None, typer.Option("--gpus", help="More guaranteed GPUs, such as 16.")
    ] = None,
    borrow_limit: Annotated[
        str | None, typer.Option("--borrow-limit", help="GPUs above the present borrow limit.")
    ] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Pool of the GPUs.")] = None,
    budget: Annotated[str | None, typer.Option("--budget", help="Name of a budget.")] = None,
    amount: Annotated[
        str | None, typer.Option("--amount", help="How much more of the budget, such as 500.")
    ] = None,
    priority_class: Annotated[
        str | None, typer.Option("--class", help="Name of a class whose cap is too low.")
    ] = None,
    cap: Annotated[
        str | None, typer.Option("--cap", help="GPUs above the present cap of the class.")
    ] = None,
    role: Annotated[
        str | None, typer.Option("--role", help="Role for yourself, such as team_lead.")
    ] = None,
    begin: Begin = None,
    until: Until = None,
    output: Output = Format.TABLE,
) -> None:
    """Ask for more guarantee, borrow limit, budget or cap of a class, or for a role.

    Give one of --gpus, --borrow-limit, --budget, --class and --role.
    """
    asked = [guarantee, borrow_limit, budget, priority_class, role]
    if sum(value is not None for value in asked) != 1:
        raise CliError("Give one of --gpus, --borrow-limit, --budget, --class and --role.")
    if (budget is None) != (amount is None):
        raise CliError("Give --amount with --budget.")
    if (priority_class is None) != (cap is None):
        raise CliError("Give --cap with --class.")
    api = open_api(ctx)
    body: dict[str, Any] = {"node": node, "reason": reason, "pool": pool}
    if begin is not None:
        body["begin"] = moment(begin, "--begin")
    if until is not None:
        body["until"] = moment(until, "--until")
    if guarantee is not None:
        body |= {"kind": "guarantee", "amount": mgpu_of(guarantee, "--gpus")}
    elif borrow_limit is not None:
        body |= {"kind": "borrow_limit", "amount": mgpu_of(borrow_limit, "--borrow-limit")}
    elif budget is not None and amount is not None:
        found = budget_named(api, budget)
        more = integer_of(amount, UNITS[found["measure"]], "--amount")
        body |= {"kind": "budget", "target": found["id"], "amount": more}
    elif priority_class is not None and cap is not None:
        organization = None if node is None else node.partition("/")[0]
        target = class_named(api, priority_class, organization)["id"]
        body |= {"kind": "class_cap", "target": target, "amount": mgpu_of(cap, "--cap")}
    else:
        body |= {"kind": "role", "role": role}
    _print(api.post("requests", body, key=str(uuid.uuid4())), output)


@requests_app.command("offer")
def requests_offer(
    ctx: typer.Context,
    lender: Annotated[str, typer.Argument(metavar="LENDER", help="Path of the node that lends.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="Path of the sibling.")],
    amount: Annotated[str, typer.Argument(metavar="GPUS", help="Such as 16.")],
    pool: Annotated[str, typer.Option("--pool", help="Pool of the GPUs.")],
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="When they return.")],
    reason: Reason,
    begin: Begin = None,
    output: Output = Format.TABLE,
) -> None:
    """Offer to lend guaranteed GPUs to a sibling for a time."""
    body = {
        "kind": "loan",
        "lender": lender,
        "node": node,
        "pool": pool,
        "amount": mgpu_of(amount, "GPUS"),
        "until": moment(until, "--until"),
        "reason": reason,
    }
    if begin is not None:
        body["begin"] = moment(begin, "--begin")
    _print(open_api(ctx).post("requests", body, key=str(uuid.uuid4())), output)


@requests_app.command("preview")
def requests_preview(
    ctx: typer.Context,
    request: Identifier,
    amount: Annotated[str | None, typer.Option("--gpus", help="Default: as asked.")] = None,
    sources: Sources = None,
    until: Until = None,
    output: Output = Format.TABLE,
) -> None:
    """Preview a request for a change of quotas. Nothing is changed."""
    api = open_api(ctx)
    path = f"requests/{_id(api, request)}"
    body: dict[str, Any] = {"sources": _sources(sources)}
    shown = api.get(path)
    body["amount"] = shown["amount"] if amount is None else mgpu_of(amount, "--gpus")
    body["until"] = shown["until"] if until is None else moment(until, "--until")
    answer = api.post(f"{path}/preview", body)
    if output is not Format.TABLE:
        print_data(answer, output)
    elif answer["refusal"]:
        raise CliError(plain(answer["refusal"]))
    else:
        print_preview(answer)


@requests_app.command("approve")
def requests_approve(
    ctx: typer.Context,
    request: Identifier,
    sources: Sources = None,
    note: Note = "",
    output: Output = Format.TABLE,
) -> None:
    """Approve a request as asked. The change is made at once."""
    body = {"sources": _sources(sources), "note": note}
    _decide(ctx, request, "approve", body, output)


@requests_app.command("override")
def requests_override(
    ctx: typer.Context,
    request: Identifier,
    reason: Annotated[str, typer.Option("--reason", help="Why it cannot wait.")],
    output: Output = Format.TABLE,
) -> None:
    """Make your change without the second person that it waits for, in an emergency.

    For platform administrators, where the organization allows it. The others are told.
    """
    _decide(ctx, request, "override", {"reason": reason}, output)


@requests_app.command("counter")
def requests_counter(
    ctx: typer.Context,
    request: Identifier,
    amount: Annotated[str, typer.Option("--amount", help="GPUs, or the amount of a budget.")],
    sources: Sources = None,
    until: Until = None,
    note: Note = "",
    output: Output = Format.TABLE,
) -> None:
    """Offer other terms. Without --until, the change is not reverted."""
    api = open_api(ctx)
    unit = api.get(f"requests/{_id(api, request)}")["unit"]
    body = {
        "amount": integer_of(amount, UNITS[unit], "--amount")
        if unit in UNITS
        else mgpu_of(amount, "--amount"),
        "sources": _sources(sources),
        "until": None if until is None else moment(until, "--until"),
        "note": note,
    }
    _decide(ctx, request, "counter", body, output)


@requests_app.command("accept")
def requests_accept(ctx: typer.Context, request: Identifier, output: Output = Format.TABLE) -> None:
    """Accept the counter-offer to your request. The change is made at once."""
    _answer_offer(ctx, request, "accept", output)


@requests_app.command("decline")
def requests_decline(
    ctx: typer.Context, request: Identifier, output: Output = Format.TABLE
) -> None:
    """Decline the counter-offer to your request, which then waits again."""
    _answer_offer(ctx, request, "decline", output)


@requests_app.command("reject")
def requests_reject(
    ctx: typer.Context,
    request: Identifier,
    note: Annotated[str, typer.Option("--note", help="Why, for the person who asked.")],
    output: Output = Format.TABLE,
) -> None:
    """Reject a request with a note."""
    api = open_api(ctx)
    _print(api.post(f"requests/{_id(api, request)}/reject", {"note": note}), output)


@requests_app.command("withdraw")
def requests_withdraw(
    ctx: typer.Context, request: Identifier, output: Output = Format.TABLE
) -> None:
    """Withdraw your request."""
    api = open_api(ctx)
    _print(api.post(f"requests/{_id(api, request)}/withdraw"), output)


@requests_app.command("comment")
def requests_comment(
    ctx: typer.Context,
    request: Identifier,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="At most 500 characters.")],
) -> None:
    """Comment on a request."""
    api = open_api(ctx)
    path = f"requests/{_id(api, request)}/comments"
    api.post(path, {"text": text}, key=str(uuid.uuid4()))
    tell("Commented. The people of the request are told.")


def _decide(
    ctx: typer.Context, request: str, act: str, body: dict[str, Any], output: Format
) -> None:
    """Decide on the present state of a request."""
    api = open_api(ctx)
    path = f"requests/{_id(api, request)}"
    _, tag = api.get_tagged(path)
    answer, _ = api.post_tagged(f"{path}/{act}", body, if_match=tag)
    _print(answer, output)


def _answer_offer(ctx: typer.Context, request: str, act: str, output: Format) -> None:
    api = open_api(ctx)
    path = f"requests/{_id(api, request)}"
    waiting = [offer["number"] for offer in api.get(path)["offers"] if offer["is_open"]]
    if not waiting:
        raise CliError(
            "This request has no open counter-offer. See its state with: "
            f"tidegate requests show {request}"
        )
    _print(api.post(f"{path}/offers/{waiting[0]}/{act}"), output)


def _sources(given: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return the typed sources in the form of the API. Raises CliError."""
    found = []
    for option in given or ():
        for each in option.split(","):
            node, sign, count = each.partition("=")
            if not (node and sign):
                raise CliError(f"--from {each[:40]!r}: write NODE=GPUS, such as vision=16.")
            found.append({"node": node, "amount_mgpu": mgpu_of(count, "--from")})
    return found


def _print(shown: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    print_fields(
        [
            ("request", shown["id"]),
            ("asks for", shown["title"]),
            ("by", shown["asked_by"]),
            ("reason", plain(shown["reason"])),
            ("status", shown["status"]),
            ("decided by", shown["decided_by"]),
            ("note", plain(shown["note"])),
            ("planned change", shown["planned"]),
            *(
                (f"offer {offer['number']}", f"{offer['title']} by {offer['made_by']}")
                for offer in shown["offers"]
            ),
        ]
    )
    if shown["write"] is not None:
        _print_write(shown["write"])
    supply = shown["supply"]
    if supply is not None and supply["sources"]:
        typer.echo()
        tell(f"Reserve of the parent: {gpus(supply['reserve_mgpu'])}")
        print_table(
            ["SOURCE", "GUARANTEED", "IN USE", "OFFERED"],
            [
                [
                    each["node"],
                    *(gpus(each[f"{name}_mgpu"]) for name in ("guaranteed", "in_use", "offered")),
                ]
                for each in supply["sources"]
            ],
            squeeze="SOURCE",
            keep_end=True,
        )
    for each in shown["comments"]:
        typer.echo(f"{each['at']}  {plain(each['author'])}: {plain(each['text'])}")


def _print_write(write: dict[str, Any]) -> None:
    """Print the effects of a change that waits for a second person."""
    typer.echo()
    tell(
        f"It moves {gpus(write['moved_mgpu'])} GPUs and would stop {write['stopped_jobs']} running "
        f"jobs, as of {write['measured_at']}."
    )
    for each in write["quotas"]:
        before, after = (
            "none" if values is None else gpus(values["guaranteed_mgpu"])
            for values in (each["before"], each["after"])
        )
        typer.echo(f"{each['node']} in {each['pool']}: {before} to {after} guaranteed")
    for each in write["rules"]:
        for name, value in each["after"].items():
            typer.echo(f"{each['rule']}: {name} {each['before'].get(name)} to {value}")
    for each in write["stopped"]:
        team = each["team"] or "other organizations"
        typer.echo(f"{team} in {each['pool']}: {each['jobs']} jobs stopped")


def _id(api: Api, given: str) -> str:
    """Return the id that is given in full, or by its end. Raises CliError."""
    try:
        return str(uuid.UUID(given))
    except ValueError:
        pass
    listed = api.items("requests", most=_LISTED_MAX) if given else ()
    found = [str(each["id"]) for each in listed if str(each["id"]).endswith(given.lower())]
    if not found:
        raise CliError(
            f"No request ends with {given[:40]!r}. List them with: tidegate requests list"
        )
    if len(found) > 1:
        raise CliError(f"{len(found)} requests end with {given[:40]!r}. Give more of the ID.")
    return found[0]
