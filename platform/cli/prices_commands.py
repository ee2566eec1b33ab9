"""`tidegate prices`: the prices of an organization, past, present and scheduled."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.moments import moment, zone_named
from cli.organizations import organization_named
from cli.output import Devices, Format, money, now_utc, print_data, print_table, tell

_CARDS_MAX = 1_000
_NANO = 1_000_000_000
_PRICE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")

prices_app = typer.Typer(
    no_args_is_help=True,
    help="Prices of a GPU-hour, by pool and usage class.",
    rich_markup_mode=None,
)

Output = Annotated[Format, typer.Option("-o", "--output", help="How to print.")]
OfOrganization = Annotated[
    str | None,
    typer.Option("--organization", help="Its slug. Required if there are several."),
]
Pool = Annotated[str, typer.Argument(metavar="POOL", help="The pool.")]
UsageClass = Annotated[str, typer.Argument(metavar="CLASS", help="guaranteed, borrowed or unpaid.")]
_WHEN = "A day in the organization's zone (2026-12-01), or a time (2026-12-01T00:00:00Z)."


@prices_app.command("list")
def prices_list(
    ctx: typer.Context,
    all_: Annotated[bool, typer.Option("--all", help="Include past prices.")] = False,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """List the prices of an organization: current and scheduled ones, with --all also past ones.

    A price marked "correction" was added after it had started to apply. Days are those of the
    organization's time zone.
    """
    card = _card(open_api(ctx), organization)
    now = now_utc()
    lines = [line for line in card["lines"] if all_ or _state(line, now) != "past"]
    if output is not Format.TABLE:
        print_data({**card, "lines": lines}, output)
        return
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
                _shown(line["start"], card),
                _shown(line["end"], card) if line["end"] else "-",
                _state(line, now) + (", correction" if line["is_correction"] else ""),
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
        str | None, typer.Option("--from", help=f"{_WHEN} Default: from now on.")
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
    card = _card(api, organization)
    line = api.post(
        f"rate-cards/{card['id']}/lines",
        {
            "pool": pool,
            "usage_class": usage_class,
            "price_nano": price_nano(price),
            "start": None if start is None else _moment(start, "--from", card),
            "end": None if until is None else _moment(until, "--until", card),
            "ends_current": True,
        },
    )
    _tell_line(line, card, output)


@prices_app.command("end")
def prices_end(
    ctx: typer.Context,
    pool: Pool,
    usage_class: UsageClass,
    at: Annotated[str | None, typer.Option(help=f"{_WHEN} Default: now.")] = None,
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
    card = _card(api, organization)
    lines = [
        line for line in card["lines"] if (line["pool"], line["usage_class"]) == (pool, usage_class)
    ]
    now = now_utc()
    if cancel is not None:
        wanted = datetime.fromisoformat(_moment(cancel, "--cancel", card))
        found = [line for line in lines if datetime.fromisoformat(line["start"]) == wanted]
        if not found:
            raise CliError(
                f"No price of {usage_class} {pool} starts then. See `tidegate prices list`."
            )
        api.delete(f"rate-cards/{card['id']}/lines/{found[0]['id']}")
        tell(f"Cancelled: {_line_text(found[0], card)}")
        return
    found = [line for line in lines if _state(line, now) == "current"]
    if not found:
        raise CliError(f"{usage_class} {pool} has no current price. See `tidegate prices list`.")
    line = api.patch(
        f"rate-cards/{card['id']}/lines/{found[0]['id']}",
        {"end": None if at is None else _moment(at, "--at", card)},
    )
    _tell_line(line, card, output)


@prices_app.command("compare")
def prices_compare(
    ctx: typer.Context,
    first: Annotated[
        str | None, typer.Argument(metavar="[FIRST]", help=f"{_WHEN} Default: now.")
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
    """Compare the prices of two moments, and what last month would have cost under each.

    Costs are those of the usage of that period, with the multipliers of its priority classes.
    """
    api = open_api(ctx)
    card = _card(api, organization)
    if second is None:
        later = [line["start"] for line in card["lines"] if _state(line, now_utc()) == "scheduled"]
        if not later:
            raise CliError("No price is scheduled. Give two moments to compare.")
        at_second = max(later, key=datetime.fromisoformat)
    else:
        at_second = _moment(second, "SECOND", card)
    found = api.get(
        f"rate-cards/{card['id']}/comparison",
        first=f"{now_utc():%Y-%m-%dT%H:%M:%SZ}" if first is None else _moment(first, "FIRST", card),
        second=at_second,
        start=None if start is None else _moment(start, "--start", card),
        end=None if end is None else _moment(end, "--end", card),
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    devices = Devices(pair["device"] for pair in found["prices"])
    totals = [money(found[name]) for name in ("first_cost_nano", "second_cost_nano")]
    print_table(
        ["POOL", "CLASS", "FIRST", "SECOND", "CHANGE", devices.hours_head, "COST 1", "COST 2"],
        [
            [
                pair["pool"],
                pair["usage_class"],
                _price(pair["first_nano"]),
                _price(pair["second_nano"]),
                _percent(pair["change_ppm"]),
                devices.hours(pair["mgpu_s"], pair["device"]),
                money(pair["first_cost_nano"]),
                money(pair["second_cost_nano"]),
            ]
            for pair in found["prices"]
        ]
        + [["total", "", "", "", _percent(found["change_ppm"]), "", *totals]],
    )
    tell(
        f"{found['currency']}, usage from {_shown(found['start'], card)} to "
        f"{_shown(found['end'], card)}. It was charged {money(found['charged_cost_nano'])}."
    )
    if not found["is_whole"]:
        tell("Usage and costs are those of the teams whose costs you may see.")


def price_nano(text: str) -> int:
    """Return a typed price in nano-currency, exactly. Raises CliError."""
    if not _PRICE.fullmatch(text):
        raise CliError(
            f"{text[:40]!r} is not a price. Write digits with a point and at most nine decimals, "
            "such as 2.10."
        )
    return int(Decimal(text) * _NANO)


def _card(api: Api, organization: str | None) -> dict[str, Any]:
    cards = list(api.items("rate-cards", most=_CARDS_MAX))
    matching = [card for card in cards if organization in (None, card["organization"])]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(str(card["organization"]) for card in matching[:10])
        raise CliError(f"Choose an organization with --organization: {names}.")
    raise CliError(
        "No rate card is visible to you. Finance and administrators create one with "
        "`tidegate prices set POOL CLASS PRICE --currency EUR`."
    )


def _state(line: dict[str, Any], now: datetime) -> str:
    if datetime.fromisoformat(line["start"]) > now:
        return "scheduled"
    is_over = line["end"] is not None and datetime.fromisoformat(line["end"]) <= now
    return "past" if is_over else "current"


def _moment(text: str, option: str, card: dict[str, Any]) -> str:
    """Return a typed day, at midnight in the organization's zone, or time in the API's form."""
    return moment(text, option, _zone(card))


def _shown(text: str, card: dict[str, Any]) -> str:
    """Return a time as a day if it is a midnight of the organization's zone."""
    local = datetime.fromisoformat(text).astimezone(_zone(card))
    is_midnight = (local.hour, local.minute, local.second) == (0, 0, 0)
    return f"{local:%Y-%m-%d}" if is_midnight else text


def _zone(card: dict[str, Any]) -> ZoneInfo:
    return zone_named(card["time_zone"])


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
    until = "" if line["end"] is None else f" until {_shown(line['end'], card)}"
    return (
        f"{line['usage_class']} {line['pool']} costs {_price(line['price_nano'])} "
        f"{card['currency']} from {_shown(line['start'], card)}{until}."
    )
