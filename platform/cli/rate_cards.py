"""Rate cards on the command line: the card of an organization, its days, and the terms of pools."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from cli.api import Api
from cli.errors import CliError
from cli.moments import moment, zone_named
from cli.output import duration, print_table
from primitives.units import PPM

_CARDS_MAX = 1_000

OfOrganization = Annotated[
    str | None,
    typer.Option("--organization", help="Its slug. Required if there are several."),
]
Pool = Annotated[str, typer.Argument(metavar="POOL", help="The pool.")]
WHEN = "A day in the organization's zone (2026-12-01), or a time (2026-12-01T00:00:00Z)."


def card_of(api: Api, organization: str | None) -> dict[str, Any]:
    """Return the organization's rate card. Raises CliError without a single one."""
    cards = list(api.items("rate-cards", most=_CARDS_MAX))
    matching = [card for card in cards if organization in (None, card["organization"])]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(str(card["organization"]) for card in matching[:10])
        raise CliError(f"Choose an organization with --organization: {names}.")
    raise CliError(
        "There is no rate card that you may see: prices are shown to people with the right "
        "view_costs. Finance and administrators make a card with "
        "`tidegate prices set POOL CLASS PRICE --currency EUR`."
    )


def state_of(rule: dict[str, Any], now: datetime) -> str:
    """Return whether a price or terms are past, current or scheduled."""
    if datetime.fromisoformat(rule["start"]) > now:
        return "scheduled"
    is_over = rule["end"] is not None and datetime.fromisoformat(rule["end"]) <= now
    return "past" if is_over else "current"


def moment_of(text: str, option: str, card: dict[str, Any]) -> str:
    """Return a typed day, at midnight in the organization's zone, or time in the API's form."""
    return moment(text, option, _zone(card))


def shown(text: str, card: dict[str, Any]) -> str:
    """Return a time as a day if it is a midnight of the organization's zone."""
    local = datetime.fromisoformat(text).astimezone(_zone(card))
    is_midnight = (local.hour, local.minute, local.second) == (0, 0, 0)
    return f"{local:%Y-%m-%d}" if is_midnight else text


def _zone(card: dict[str, Any]) -> ZoneInfo:
    return zone_named(card["time_zone"])


def state_text(rule: dict[str, Any], now: datetime) -> str:
    """Return the state, and whether the rule is a correction."""
    return state_of(rule, now) + (", correction" if rule["is_correction"] else "")


def print_terms(terms: list[dict[str, Any]], card: dict[str, Any], now: datetime) -> None:
    """Print the terms of pools as a table."""
    print_table(
        [
            *("POOL", "MODE", "GUARANTEED", "BORROWED", "UNPAID"),
            *("MINIMUM", "INCREMENT", "FROM", "UNTIL", "STATE"),
        ],
        [
            [
                each["pool"],
                each["mode"],
                *(f"x {factor_text(each[name])}" for name in MULTIPLIERS),
                duration(each["minimum_s"]) if each["minimum_s"] else "-",
                duration(each["increment_s"]),
                shown(each["start"], card),
                shown(each["end"], card) if each["end"] else "-",
                state_text(each, now),
            ]
            for each in terms
        ],
    )


#: The multipliers of usage classes, as the API names them.
MULTIPLIERS = ("guaranteed_ppm", "borrowed_ppm", "unpaid_ppm")


def factor_text(ppm: int) -> str:
    """Return a multiplier: 1.5, 0.3, 1."""
    whole, rest = divmod(ppm, PPM)
    decimals = f"{rest:06d}".rstrip("0")
    return f"{whole}.{decimals}" if decimals else str(whole)
