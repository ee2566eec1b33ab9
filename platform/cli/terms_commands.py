"""`tidegate prices terms`: the modes, multipliers, minimums and increments of pools."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, duration, now_utc, print_data, tell
from cli.policy_commands import multiplier
from cli.rate_cards import (
    MULTIPLIERS,
    WHEN,
    OfOrganization,
    Pool,
    card_of,
    factor_text,
    moment_of,
    shown,
    state_of,
)
from cli.submitting import seconds
from primitives.units import PPM

terms_app = typer.Typer(
    no_args_is_help=True,
    help="Terms of a pool: its mode, multipliers, minimum and increment.",
    rich_markup_mode=None,
)

_DEFAULTS = {**dict.fromkeys(MULTIPLIERS, PPM), "minimum_s": 0, "increment_s": 1}
_KEPT = "Default: as before, or 1 without terms."


class Mode(StrEnum):
    """The way in which the use of a pool is billed."""

    PAY_PER_USE = "pay_per_use"
    COMMITMENT = "commitment"
    SHOWBACK = "showback"


@terms_app.command("set")
def terms_set(
    ctx: typer.Context,
    pool: Pool,
    mode: Annotated[
        Mode,
        typer.Argument(
            metavar="MODE",
            help="pay_per_use bills what was used, commitment the guarantee, used or not, and "
            "showback bills nothing.",
        ),
    ],
    guaranteed: Annotated[
        str | None, typer.Option(help=f"Factor of the price of guaranteed use: 1.5. {_KEPT}")
    ] = None,
    borrowed: Annotated[
        str | None, typer.Option(help=f"Factor of the price of borrowed use. {_KEPT}")
    ] = None,
    unpaid: Annotated[
        str | None,
        typer.Option(
            help="Factor of the price of unpaid use, or of borrowed use where unpaid use has no "
            f"price. {_KEPT}"
        ),
    ] = None,
    minimum: Annotated[
        str | None, typer.Option(help="Least billed time of an attempt: 5m. Default: as before.")
    ] = None,
    increment: Annotated[
        str | None, typer.Option(help="Bill attempts for multiples of it: 1m. Default: as before.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help=f"{WHEN} Default: from now on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="End, excluded. Default: the next scheduled terms.")
    ] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Set the terms of a pool from a moment on. The terms that apply then end at that moment.

    Terms that have applied never change. Where the pool had none, --from may be in the past.
    """
    api = open_api(ctx)
    card = card_of(api, organization)
    since = None if start is None else moment_of(start, "--from", card)
    given = {
        "guaranteed_ppm": _factor(guaranteed, "--guaranteed"),
        "borrowed_ppm": _factor(borrowed, "--borrowed"),
        "unpaid_ppm": _factor(unpaid, "--unpaid"),
        "minimum_s": seconds(minimum, "--minimum"),
        "increment_s": seconds(increment, "--increment"),
    }
    before = _terms_at(card, pool, since)
    terms = api.post(
        f"rate-cards/{card['id']}/terms",
        {
            "pool": pool,
            "mode": mode.value,
            **{
                name: before.get(name, default) if given[name] is None else given[name]
                for name, default in _DEFAULTS.items()
            },
            "start": since,
            "end": None if until is None else moment_of(until, "--until", card),
            "ends_current": True,
        },
    )
    _tell_terms(terms, card, output)


@terms_app.command("end")
def terms_end(
    ctx: typer.Context,
    pool: Pool,
    at: Annotated[str | None, typer.Option(help=f"{WHEN} Default: now.")] = None,
    cancel: Annotated[
        str | None,
        typer.Option(help="Cancel the scheduled terms that start on this day or time instead."),
    ] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """End the terms of a pool, or cancel scheduled ones.

    A pool without terms is pay-per-use. After cancelled terms, the terms before them continue.
    """
    if at is not None and cancel is not None:
        raise CliError("Give --at or --cancel, not both.")
    api = open_api(ctx)
    card = card_of(api, organization)
    of_pool = [each for each in card["terms"] if each["pool"] == pool]
    if cancel is not None:
        wanted = datetime.fromisoformat(moment_of(cancel, "--cancel", card))
        found = [each for each in of_pool if datetime.fromisoformat(each["start"]) == wanted]
        if not found:
            raise CliError(f"No terms of {pool} start then. See `tidegate prices list`.")
        api.delete(f"rate-cards/{card['id']}/terms/{found[0]['id']}")
        tell(f"Cancelled: {_text(found[0], card)}")
        return
    found = [each for each in of_pool if state_of(each, now_utc()) == "current"]
    if not found:
        raise CliError(f"{pool} has no current terms. See `tidegate prices list`.")
    terms = api.patch(
        f"rate-cards/{card['id']}/terms/{found[0]['id']}",
        {"end": None if at is None else moment_of(at, "--at", card)},
    )
    _tell_terms(terms, card, output)


def _factor(text: str | None, option: str) -> int | None:
    return None if text is None else multiplier(text, f"{option} ")


def _terms_at(card: dict[str, Any], pool: str, since: str | None) -> dict[str, Any]:
    """Return the terms that apply to the pool then, or nothing."""
    at = now_utc() if since is None else datetime.fromisoformat(since)
    found = [
        each for each in card["terms"] if each["pool"] == pool and state_of(each, at) == "current"
    ]
    return found[0] if found else {}


def _tell_terms(terms: dict[str, Any], card: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(terms, output)
        return
    tell(_text(terms, card))
    if terms["is_correction"]:
        tell("They start in the past, so they are a correction.")


_MODES = {
    "pay_per_use": "bills what is used",
    "commitment": "bills the guarantee, used or not",
    "showback": "bills nothing (showback)",
}


def _text(terms: dict[str, Any], card: dict[str, Any]) -> str:
    parts = [_MODES[terms["mode"]]]
    factors = [
        f"{name.removesuffix('_ppm')} x {factor_text(terms[name])}"
        for name in MULTIPLIERS
        if terms[name] != PPM
    ]
    if factors:
        parts.append(" and ".join(factors))
    if terms["minimum_s"]:
        parts.append(f"at least {duration(terms['minimum_s'])} an attempt")
    if terms["increment_s"] > 1:
        parts.append(f"in steps of {duration(terms['increment_s'])}")
    until = "" if terms["end"] is None else f" until {shown(terms['end'], card)}"
    return f"{terms['pool']} {', '.join(parts)}, from {shown(terms['start'], card)}{until}."
