"""`tidegate prices`: the prices of an organization, past, present and scheduled."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.organizations import organization_named
from cli.output import Devices, Format, Output, now_utc, print_data, print_table, tell
from cli.rate_cards import (
    WHEN,
    OfOrganization,
    Pool,
    card_of,
    factor_text,
    moment_of,
    print_terms,
    shown,
    state_of,
    state_text,
)
from primitives.currencies import money_text
from primitives.units import PPM

_NANO = 1_000_000_000
#: The most teams of a comparison on a terminal.
TEAMS_MAX = 50
_PRICE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")

prices_app = typer.Typer(
    no_args_is_help=True,
    help="Prices of a GPU-hour, by pool and usage class.",
    rich_markup_mode=None,
)

UsageClass = Annotated[str, typer.Argument(metavar="CLASS", help="guaranteed, borrowed or unpaid.")]


@prices_app.command("list")
def prices_list(
    ctx: typer.Context,
    all_: Annotated[bool, typer.Option("--all", help="Include past prices.")] = False,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """List prices and terms of an organization: current and scheduled ones, with --all past ones.

    A price marked "correction" was added after it had started to apply. Days are those of the
    organization's time zone.
    """
    card = card_of(open_api(ctx), organization)
    now = now_utc()
    lines, terms = (
        [rule for rule in card[rules] if all_ or state_of(rule, now) != "past"]
        for rules in ("lines", "terms")
    )
    if output is not Format.TABLE:
        print_data({**card, "lines": lines, "terms": terms}, output, rows="lines")
        return
    if terms:
        print_terms(terms, card, now)
    if not lines:
        tell(f"{card['organization']} has no prices yet. Set one with `tidegate prices set`.")
        return
    print_table(
        ["POOL", "CLASS", f"PRICE {card['currency']}", "FROM", "UNTIL", "STATE"],
        [
            [
                line["pool"],
                line["usage_class"],
                _price(line["price_nano"]),
                shown(line["start"], card),
                shown(line["end"], card) if line["end"] else "-",
                state_text(line, now),
            ]
            for line in lines
        ],
    )
    tell(f"Days begin at midnight in {card['time_zone']}.")


@prices_app.command("set")
def prices_set(
    ctx: typer.Context,
    pool: Pool,
    usage_class: UsageClass,
    price: Annotated[str, typer.Argument(metavar="PRICE", help="Per GPU-hour: 2.10.")],
    start: Annotated[
        str | None, typer.Option("--from", help=f"{WHEN} Default: from now on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="End, excluded. Default: the next scheduled price.")
    ] = None,
    currency: Annotated[
        str | None, typer.Option(help="Create the rate card in this currency first: EUR.")
    ] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Set a price from a moment on. The price that applies then ends at that moment.

    A price that has applied never changes. Where there was no price, --from may be in the past:
    reports then name the price as a correction.
    """
    api = open_api(ctx)
    if currency is not None:
        slug = organization_named(api, organization)["slug"]
        api.post("rate-cards", {"organization": slug, "currency": currency})
    card = card_of(api, organization)
    line = api.post(
        f"rate-cards/{card['id']}/lines",
        {
            "pool": pool,
            "usage_class": usage_class,
            "price_nano": price_nano(price),
            "start": None if start is None else moment_of(start, "--from", card),
            "end": None if until is None else moment_of(until, "--until", card),
            "ends_current": True,
        },
    )
    _tell_line(line, card, output)


@prices_app.command("end")
def prices_end(
    ctx: typer.Context,
    pool: Pool,
    usage_class: UsageClass,
    at: Annotated[str | None, typer.Option(help=f"{WHEN} Default: now.")] = None,
    cancel: Annotated[
        str | None,
        typer.Option(help="Cancel the scheduled price that starts on this day or time instead."),
    ] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """End the current price without a new one, or cancel a scheduled price.

    Usage without a price costs nothing. After a cancelled price, the price before it continues.
    """
    if at is not None and cancel is not None:
        raise CliError("Give --at or --cancel, not both.")
    api = open_api(ctx)
    card = card_of(api, organization)
    lines = [
        line for line in card["lines"] if (line["pool"], line["usage_class"]) == (pool, usage_class)
    ]
    now = now_utc()
    if cancel is not None:
        wanted = datetime.fromisoformat(moment_of(cancel, "--cancel", card))
        found = [line for line in lines if datetime.fromisoformat(line["start"]) == wanted]
        if not found:
            raise CliError(
                f"No price of {usage_class} {pool} starts then. See `tidegate prices list`."
            )
        api.delete(f"rate-cards/{card['id']}/lines/{found[0]['id']}")
        tell(f"Cancelled: {_line_text(found[0], card)}")
        return
    found = [line for line in lines if state_of(line, now) == "current"]
    if not found:
        raise CliError(f"{usage_class} {pool} has no current price. See `tidegate prices list`.")
    line = api.patch(
        f"rate-cards/{card['id']}/lines/{found[0]['id']}",
        {"end": None if at is None else moment_of(at, "--at", card)},
    )
    _tell_line(line, card, output)


@prices_app.command("compare")
def prices_compare(
    ctx: typer.Context,
    first: Annotated[
        str | None, typer.Argument(metavar="[FIRST]", help=f"{WHEN} Default: now.")
    ] = None,
    second: Annotated[
        str | None,
        typer.Argument(metavar="[SECOND]", help="Default: after all scheduled changes."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Start of the period of usage. Default: last month.")
    ] = None,
    end: Annotated[str | None, typer.Option(help="End of that period, excluded.")] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Compare the prices of two moments, and what last month would have cost under each, by team.

    Costs are those of the usage and guarantees of that period, with the modes and multipliers of
    the moment.
    """
    api = open_api(ctx)
    card = card_of(api, organization)
    if second is None:
        rules = [*card["lines"], *card["terms"]]
        later = [rule["start"] for rule in rules if state_of(rule, now_utc()) == "scheduled"]
        if not later:
            raise CliError("No price and no terms are scheduled. Give two moments to compare.")
        at_second = max(later, key=datetime.fromisoformat)
    else:
        at_second = moment_of(second, "SECOND", card)
    found = api.get(
        f"rate-cards/{card['id']}/comparison",
        first=f"{now_utc():%Y-%m-%dT%H:%M:%SZ}"
        if first is None
        else moment_of(first, "FIRST", card),
        second=at_second,
        start=None if start is None else moment_of(start, "--start", card),
        end=None if end is None else moment_of(end, "--end", card),
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    _print_pairs(found)
    _print_teams(found)
    charged, first, second = (
        money_text(found[name], found["currency"])
        for name in ("charged_cost_nano", "first_showback_nano", "second_showback_nano")
    )
    tell(
        f"{found['currency']}, usage from {shown(found['start'], card)} to "
        f"{shown(found['end'], card)}. It was charged {charged}."
    )
    if found["first_showback_nano"] or found["second_showback_nano"]:
        tell(f"Showback, not billed: {first} and {second}.")
    if not found["is_whole"]:
        tell("Usage and costs are those of the teams whose costs you may see.")


def _print_pairs(found: dict[str, Any]) -> None:
    devices = Devices(pair["device"] for pair in found["prices"])
    totals = [
        money_text(found[name], found["currency"])
        for name in ("first_cost_nano", "second_cost_nano")
    ]
    print_table(
        ["POOL", "CLASS", "FIRST", "SECOND", "CHANGE", devices.hours_head, "COST 1", "COST 2"],
        [
            [
                pair["pool"],
                pair["usage_class"],
                _price_at(pair["first"]),
                _price_at(pair["second"]),
                _percent(pair["change_ppm"]),
                devices.hours(pair["mgpu_s"], pair["device"]),
                money_text(pair["first"]["cost_nano"], found["currency"]),
                money_text(pair["second"]["cost_nano"], found["currency"]),
            ]
            for pair in found["prices"]
        ]
        + [["total", "", "", "", _percent(found["change_ppm"]), "", *totals]],
    )


def _price_at(side: dict[str, Any]) -> str:
    """Return a price with its multiplier, and its mode where it is not pay-per-use."""
    text = _price(side["price_nano"])
    if side["multiplier_ppm"] not in (None, PPM):
        text += f" (x {factor_text(side['multiplier_ppm'])})"
    return text if side["mode"] == "pay_per_use" else f"{text} {side['mode']}"


def _print_teams(found: dict[str, Any]) -> None:
    shown_teams = found["teams"][:TEAMS_MAX]
    if not shown_teams:
        return
    print_table(
        ["TEAM", "COST 1", "COST 2", "CHANGE"],
        [
            [
                team["team"],
                money_text(team["first_cost_nano"], found["currency"]),
                money_text(team["second_cost_nano"], found["currency"]),
                _percent(team["change_ppm"]),
            ]
            for team in shown_teams
        ],
    )
    if (more := len(found["teams"]) - len(shown_teams)) > 0:
        tell(f"{more} more teams change less; -o json has all.")


def price_nano(text: str) -> int:
    """Return a typed price in nano-currency, exactly. Raises CliError."""
    if not _PRICE.fullmatch(text):
        raise CliError(
            f"{text[:40]!r} is not a price. Write digits with a point and at most nine decimals, "
            "such as 2.10."
        )
    return int(Decimal(text) * _NANO)


def _price(nano: int | None) -> str:
    """Return an exact price with two decimals or as many as it needs; None is "-"."""
    if nano is None:
        return "-"
    whole, rest = divmod(nano, _NANO)
    decimals = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{whole:,}.{decimals}"


def _percent(change_ppm: int | None) -> str:
    if change_ppm is None:
        return "-"
    tenths = abs(change_ppm) // 1_000
    sign = "" if tenths == 0 else "-" if change_ppm < 0 else "+"
    return f"{sign}{tenths // 10}.{tenths % 10} %"


def _tell_line(line: dict[str, Any], card: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(line, output)
        return
    tell(_line_text(line, card))
    if line["is_correction"]:
        tell("It starts in the past, so reports name it as a correction.")


def _line_text(line: dict[str, Any], card: dict[str, Any]) -> str:
    until = "" if line["end"] is None else f" until {shown(line['end'], card)}"
    return (
        f"{line['usage_class']} {line['pool']} costs {_price(line['price_nano'])} "
        f"{card['currency']} from {shown(line['start'], card)}{until}."
    )
