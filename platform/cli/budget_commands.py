"""`tidegate budgets`: how much nodes and users may use over a period."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.budget_amounts import UNITS, amount_text, bare_amount, integer_of
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, plain, print_data, print_fields, print_table, tell

BUDGETS_MAX = 10_000
_ALERTS_SHOWN = 20


class Measure(StrEnum):
    """The quantity that a budget limits."""

    GPU_HOURS = "gpu_hours"
    CREDITS = "credits"
    MONEY = "money"


class Policy(StrEnum):
    """The effect of a budget that is used up."""

    NOTIFY = "notify"
    STOP_BORROWING = "stop_borrowing"
    STOP_STARTS = "stop_starts"


budgets_app = typer.Typer(
    no_args_is_help=True,
    help="Budgets: use over a period, with alerts and limits.",
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of the budget.")]


@budgets_app.command("list")
def budgets_list(
    ctx: typer.Context,
    node: Annotated[
        str | None, typer.Option("--node", help="Budgets of this node and of nodes below it.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """List budgets, with what is used, on hold and left.

    On hold is the most that running jobs may still use. FORECAST is the use that is expected at the
    end of the period.
    """
    found = list(open_api(ctx).items("budgets", most=BUDGETS_MAX, node=node))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("There is no budget that you may see.")
        return
    print_table(
        ["NAME", "OF", "PERIOD", "LIMIT", "USED", "ON HOLD", "LEFT", "FORECAST", "AT 100 %"],
        [
            [
                each["name"],
                _owner(each),
                period_text(each),
                amount_text(each, each["limit"]),
                *(bare_amount(each, each["state"][name]) for name in ("used", "on_hold", "left")),
                bare_amount(each, each["state"]["forecast"]),
                each["policy"].replace("_", " "),
            ]
            for each in found
        ],
        squeeze="OF",
    )


@budgets_app.command("show")
def budgets_show(ctx: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Show a budget with its forecast and its latest alerts.

    COUNTED, NOT HELD are clusters that start native jobs without asking the portal.
    """
    api = open_api(ctx)
    found = budget_named(api, name)
    alerts = list(api.items("budget-alerts", most=_ALERTS_SHOWN, budget=found["id"]))
    if output is not Format.TABLE:
        print_data({**found, "alerts": alerts}, output)
        return
    _print(found)
    if alerts:
        print_table(
            ["ALERT", "REACHED", "AMOUNT", "LIMIT"],
            [
                [
                    plain(each["at"]),
                    f"{each['percent']} %" + (" (forecast)" if each["kind"] == "forecast" else ""),
                    amount_text(found, each["amount"]),
                    amount_text(found, each["limit"]),
                ]
                for each in alerts
            ],
        )


@budgets_app.command("set")
def budgets_set(
    ctx: typer.Context,
    name: Name,
    limit: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Such as 5000: GPU-hours, credits or money."),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="Of a new budget: path of its node.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Of a new budget: only this user's jobs.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="Of a new budget: only this pool.")
    ] = None,
    measure: Annotated[
        Measure, typer.Option("--in", help="Of a new budget: what it counts.")
    ] = Measure.GPU_HOURS,
    per: Annotated[
        str | None,
        typer.Option(metavar="PERIOD", help="month, quarter, year, or rolling days such as 30d."),
    ] = None,
    at_limit: Annotated[Policy | None, typer.Option(help="Effect at 100 %.")] = None,
    new_name: Annotated[str | None, typer.Option("--rename", help="A new name.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Change a budget, or make one if there is none of this name. Settings not named stay.

    A new budget needs --node and --limit. By default it is in GPU-hours a month, and notifies.
    """
    api = open_api(ctx)
    found = next(_named(api, name), None)
    counts = found["measure"] if found else measure.value
    edit: dict[str, Any] = {}
    if limit is not None:
        edit["limit"] = integer_of(limit, UNITS[counts], "--limit")
    if per is not None:
        edit |= window_of(per)
    if at_limit is not None:
        edit["policy"] = at_limit.value
    if new_name is not None:
        edit["name"] = new_name
    if found is not None:
        if not edit:
            raise CliError("Nothing to set: give --limit, --per, --at-limit or --rename.")
        if node or user or pool:
            raise CliError(
                f"{name} exists, and its node, user and pool stay. Remove it, and make it anew."
            )
        shown = api.patch(f"budgets/{found['id']}", edit, if_match=f'"v{found["version"]}"')
    else:
        if node is None or limit is None:
            raise CliError(f"There is no budget {name!r}. To make it, give --node and --limit.")
        body = {
            "name": name,
            "node": node,
            "user": user,
            "pool": pool,
            "measure": counts,
            "window": "month",
            "policy": Policy.NOTIFY.value,
            **edit,
        }
        shown = api.post("budgets", body, key=str(uuid.uuid4()))
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    _print(shown)


@budgets_app.command("remove")
def budgets_remove(ctx: typer.Context, name: Name) -> None:
    """Remove a budget with its alerts. The audit log keeps both."""
    api = open_api(ctx)
    found = budget_named(api, name)
    api.delete(f"budgets/{found['id']}", if_match=f'"v{found["version"]}"')
    tell(f"Removed {found['name']}.")


def budget_named(api: Api, name: str) -> dict[str, Any]:
    """Return the budget of this name or id. Raises CliError where there is none or several."""
    found = next(_named(api, name), None)
    if found is None:
        raise CliError(f"There is no budget {name!r}, or you may not see it.")
    return found


def _named(api: Api, name: str) -> Iterator[dict[str, Any]]:
    """Yield the budgets of this name or id. Several organizations may use one name."""
    found = [
        each
        for each in api.items("budgets", most=BUDGETS_MAX)
        if name in (each["name"], each["id"])
    ]
    if len(found) > 1:
        raise CliError(f"{len(found)} budgets are called {name!r}. Give the id of one.")
    yield from found


def _print(budget: dict[str, Any]) -> None:
    state = budget["state"]
    forecast = "not known yet"
    if state["forecast"] is not None:
        low, high = (bare_amount(budget, state[name]) for name in ("forecast_low", "forecast_high"))
        forecast = f"{amount_text(budget, state['forecast'])} (from {low} to {high})"
    print_fields(
        [
            ("name", budget["name"]),
            ("of", _owner(budget)),
            ("pool", budget["pool"] or "all"),
            ("period", f"{period_text(budget)}, until {plain(state['window_end'])}"),
            ("limit", amount_text(budget, budget["limit"])),
            ("used", amount_text(budget, state["used"])),
            ("on hold", amount_text(budget, state["on_hold"])),
            ("left", amount_text(budget, state["left"])),
            ("forecast", forecast),
            ("at 100 %", budget["policy"].replace("_", " ")),
            ("counted, not held", ", ".join(budget["not_held_on"]) or None),
            ("as of", state["as_of"]),
        ]
    )


def _owner(budget: dict[str, Any]) -> str:
    return f"{budget['user']} in {budget['node']}" if budget["user"] else str(budget["node"])


def period_text(budget: dict[str, Any]) -> str:
    """Return the period of a budget: "month", or "30 days"."""
    if budget["window"] == "rolling":
        return f"{budget['rolling_days']} days"
    return str(budget["window"])


def window_of(text: str) -> dict[str, Any]:
    """Return the members of a period such as "month" or "30d". Raises CliError for others."""
    if text in ("month", "quarter", "year"):
        return {"window": text}
    days = text.removesuffix("d")
    if text.endswith("d") and days.isascii() and days.isdigit():
        return {"window": "rolling", "rolling_days": int(days)}
    raise CliError(
        f"--per must be month, quarter, year, or a number of days such as 30d, not {text!r}."
    )
