"""`tidegate quota-changes`: change several quotas together, with a preview."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import REFUSED, CliError, Refused
from cli.output import (
    Devices,
    Format,
    Output,
    duration,
    gpus,
    plain,
    print_data,
    print_fields,
    print_table,
    tell,
)
from cli.submitting import number, seconds
from primitives.currencies import money_text

_QUOTAS_MAX = 10_000
_LISTED_MAX = 1_000
#: Number of planned changes that are searched for an id with a given end.
_LOOKED_THROUGH = 500
#: Number of jobs of each kind that a preview prints.
_ROWS = 20
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)%")
_LOCAL = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
_PRECONDITION_FAILED = 412

changes_app = typer.Typer(
    no_args_is_help=True,
    help="Change several quotas together: draft, preview, apply, schedule, revert.",
    rich_markup_mode=None,
)

ChangeArgument = Annotated[
    str, typer.Argument(metavar="CHANGE", help="Its id, or the end of the id as in `list`.")
]
#: Settings of an edit: the API's name by the name on the command line.
_SETTINGS = {"borrow": "borrow_limit_mgpu", "lend": "lend_limit_mgpu"}
_GUARANTEES = {"guaranteed_mgpu", "guaranteed_percent"}


@changes_app.command("list")
def changes_list(
    ctx: typer.Context,
    status: Annotated[
        str | None,
        typer.Option(
            help="Only draft, scheduled, applied, reverted, kept, cancelled, expired or failed."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="Number of changes.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """List planned changes of quotas, newest first. NEXT is the time of the next automatic step."""
    found = list(open_api(ctx).items("quota-changes", most=limit, status=status))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No planned changes" + (f" with status {status}." if status else "."))
        return
    print_table(
        ["CHANGE", "STATUS", "NEXT", "EDITS", "BY", "REASON"],
        [
            [
                change["id"][-12:],
                change["status"],
                _next(change),
                len(change["edits"]),
                change["created_by"],
                change["reason"],
            ]
            for change in found
        ],
        squeeze="REASON",
    )
    if len(found) == limit:
        tell(f"These are the first {limit}. Use --limit for more.")


@changes_app.command("show")
def changes_show(ctx: typer.Context, change: ChangeArgument, output: Output = Format.TABLE) -> None:
    """Show a planned change: each quota when drafted, now, and after the change."""
    api = open_api(ctx)
    _print(api.get(f"quota-changes/{_change_id(api, change)}"), output)


@changes_app.command("draft")
def changes_draft(
    ctx: typer.Context,
    edits: Annotated[
        list[str],
        typer.Argument(
            metavar="NODE:NAME=VALUE[,NAME=VALUE]...",
            help="For example ai-company/research/nlp:guaranteed=12,borrow=none. Names: guaranteed "
            "(GPUs or cores, or 40% of the parent), borrow and lend (a limit, or none), weight.",
        ),
    ],
    reason: Annotated[str, typer.Option(help="Reason, stored in the history of each quota.")],
    pool: Annotated[
        str | None, typer.Option(help="Required for a node with quotas in several pools.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="Time to apply it: 2026-12-01T07:00Z. Default: once approved."),
    ] = None,
    revert_after: Annotated[
        str | None, typer.Option(help="Revert it after 12h, 3d, ... Default: never.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Draft a change of one or several quotas. Nothing changes before it is applied.

    A draft needs the right to change some setting of each quota. `apply` needs the rights to all
    edits.
    """
    api = open_api(ctx)
    body = {
        "edits": _read_edits(api, edits, pool),
        "reason": reason,
        "apply_at": None if at is None else _moment(at),
        "revert_after_s": seconds(revert_after, "--revert-after"),
    }
    made = api.post("quota-changes", body, key=str(uuid.uuid4()))
    _print(made, output)
    tell(f"Drafted. Run `tidegate quota-changes preview {made['id'][-12:]}` to see its effects.")


@changes_app.command("preview")
def changes_preview(
    ctx: typer.Context,
    change: ChangeArgument,
    horizon: Annotated[str, typer.Option(help="Simulated time: 1h, 1d, up to 7d.")] = "1d",
    output: Output = Format.TABLE,
) -> None:
    """Simulate the coming hours with and without a planned change, and show the differences.

    Shows jobs that start sooner or later, and preempted jobs with their work at risk. Shows also
    GPU time and cost of each team. This is an estimate: jobs run to their time limits, and no new
    jobs are submitted. The last line is the state for `apply --if-match`.

    Exits with 0 also where jobs would start later or lose work. To decide on that, read `starts`
    and `reclaimed` of -o json. Exits with 3 where the rules do not allow the change at present
    (`refusal`), or the server refuses the preview.
    """
    api = open_api(ctx)
    body = {"horizon_s": seconds(horizon, "--horizon")}
    answer, etag = api.post_tagged(f"quota-changes/{_change_id(api, change)}/preview", body)
    if output is not Format.TABLE:
        print_data(answer, output)
    if answer["refusal"]:
        told = f"It cannot be applied at present: {answer['refusal']}"
        raise CliError(told, exit_code=REFUSED)
    if output is Format.TABLE:
        print_preview(answer)
    tell(f"State: {etag.strip(chr(34))}")


@changes_app.command("apply")
def changes_apply(
    ctx: typer.Context,
    change: ChangeArgument,
    if_match: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="Apply only if nothing changed since `preview`, which prints the STATE. Default: "
            "the present state.",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Apply a draft. A draft with a time is scheduled for it. All edits are made, or none.

    If the draft or a related quota changed meanwhile, the request is refused (exit code 3). The
    changes are printed, and the draft stays.
    """
    _decide(open_api(ctx), change, if_match, output, needs_time=False)


@changes_app.command("schedule")
def changes_schedule(
    ctx: typer.Context,
    change: ChangeArgument,
    if_match: Annotated[str | None, typer.Option(metavar="STATE", help="As for `apply`.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Schedule a draft that has a time (`draft --at`). A draft without a time is refused."""
    _decide(open_api(ctx), change, if_match, output, needs_time=True)


@changes_app.command("cancel")
def changes_cancel(
    ctx: typer.Context, change: ChangeArgument, output: Output = Format.TABLE
) -> None:
    """Cancel a draft or a scheduled change, or keep an applied change that would be reverted."""
    api = open_api(ctx)
    _print(api.post(f"quota-changes/{_change_id(api, change)}/cancel"), output)


def _decide(
    api: Api, change: str, if_match: str | None, output: Format, *, needs_time: bool
) -> None:
    path = f"quota-changes/{_change_id(api, change)}"
    found, etag = api.get_tagged(path)
    if needs_time and found["apply_at"] is None:
        raise CliError(
            "This draft has no time. Run `apply` to apply it now, or draft it again with --at."
        )
    wanted = etag if if_match is None else f'"{if_match.strip(chr(34))}"'
    try:
        decided, _ = api.post_tagged(f"{path}/apply", if_match=wanted)
    except Refused as refusal:
        if refusal.status == _PRECONDITION_FAILED:
            _tell_stale(refusal.problem.get("current"))
        raise
    _print(decided, output)


def _tell_stale(current: object) -> None:
    """Print the settings that changed since the draft."""
    if not isinstance(current, Mapping):
        return
    for edit in current["edits"]:
        if edit["is_stale"]:
            was, now = edit["before"], edit["current"]
            differing = [name for name in was if was[name] != now[name]]
            told = ", ".join(
                f"{_NAMES[name]} {_value(name, was[name])} is now {_value(name, now[name])}"
                for name in differing
            )
            tell(f"{edit['node']} in {edit['pool']}: {told or 'changed, and changed back'}")


# -- reading what was given ---------------------------------------------------------------------


def _read_edits(api: Api, texts: Sequence[str], pool: str | None) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        node, colon, settings = text.partition(":")
        if not colon:
            raise CliError(f"{text[:60]!r}: write NODE:guaranteed=12 or NODE:borrow=none,lend=4.")
        quota = _quota_id(api, node.rstrip("/"), pool)
        edit = found.setdefault(quota, {"quota": quota})
        for name, value in _settings(settings, text):
            if name in edit or (name.startswith("guaranteed") and _GUARANTEES & edit.keys()):
                raise CliError(f"{text[:60]!r}: one setting of {node} is given twice.")
            edit[name] = value
    return list(found.values())


def _settings(settings: str, text: str) -> Iterator[tuple[str, Any]]:
    for setting in settings.split(","):
        name, equals, value = setting.partition("=")
        if not equals or name not in ("guaranteed", "weight", *_SETTINGS):
            raise CliError(
                f"{text[:60]!r}: {setting[:30]!r} is not a setting. Use guaranteed=, borrow=, "
                "lend= and weight=."
            )
        if name == "guaranteed" and (percent := _PERCENT.fullmatch(value)):
            yield "guaranteed_percent", percent[1]
        elif name == "weight":
            yield "weight", _whole(value)
        elif name in _SETTINGS and value == "none":
            yield _SETTINGS[name], None
        else:
            yield _SETTINGS.get(name, "guaranteed_mgpu"), mgpu_of(value, f"{name}=")


def mgpu_of(text: str, option: str) -> int:
    """Return a typed number of GPUs in milli-GPU. Raises CliError."""
    given = number(text, option)
    assert given is not None
    mgpu = round(given * 1_000)
    if abs(mgpu - given * 1_000) > 1e-6:
        raise CliError(f"{option} {text[:40]}: write at most three decimals.")
    return mgpu


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise CliError(f"weight={text[:40]}: write a whole number.")
    return int(text)


def _quota_id(api: Api, node: str, pool: str | None) -> str:
    found = list(api.items("quotas", most=_QUOTAS_MAX, node=node, pool=pool))
    if not found:
        raise CliError(f"{node} has no quota" + (f" in {pool}." if pool else "."))
    if len(found) > 1:
        pools = ", ".join(str(quota["pool"]) for quota in found)
        raise CliError(f"{node} has quotas in {pools}. Choose one with --pool.")
    return str(found[0]["id"])


def _change_id(api: Api, given: str) -> str:
    """Return the id of the planned change with this id, or with an id that ends like this."""
    try:
        return str(uuid.UUID(given))
    except ValueError:
        pass
    found = [
        str(change["id"])
        for change in api.items("quota-changes", most=_LOOKED_THROUGH)
        if str(change["id"]).endswith(given.lower())
    ]
    if len(found) != 1 or not given:
        ending = (
            f"{len(found)} planned changes end" if found and given else "No planned change ends"
        )
        raise CliError(f"{ending} with {given[:40]!r}; `tidegate quota-changes list` shows them.")
    return found[0]


def _moment(text: str) -> str:
    """Return a time in the form of the API. A time without a zone is refused."""
    given = text.removesuffix("Z")
    for layout in _LOCAL:
        try:
            moment = datetime.strptime(f"{given}+0000", f"{layout}%z")
        except ValueError:
            continue
        if text.endswith("Z"):
            return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    raise CliError(f"--at {text[:40]!r}: write UTC, such as 2026-12-01T07:00Z.")


# -- printing -----------------------------------------------------------------------------------

_NAMES = {
    "guaranteed_mgpu": "guaranteed",
    "guaranteed_percent": "percent of parent",
    "borrow_limit_mgpu": "borrow limit",
    "lend_limit_mgpu": "lend limit",
    "weight": "weight",
}


def _value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if name == "guaranteed_percent":
        return f"{value} %"
    return gpus(value) if name.endswith("_mgpu") else str(value)


def _next(change: Mapping[str, Any]) -> str | None:
    """Return the time of the next automatic step."""
    when = {"draft": "expires_at", "scheduled": "apply_at", "applied": "revert_at"}
    name = when.get(change["status"])
    return None if name is None else change[name]


#: Labels for the end of a change that was to be reverted.
_REVERTS = {"reverted": "reverted", "kept": "not reverted"}


def _print(change: Mapping[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(change, output)
        return
    revert_s = change["revert_after_s"]
    reverts = _REVERTS.get(change["status"], "to be reverted")
    due = None if change["applied_at"] else change["apply_at"] or "once approved"
    print_fields(
        [
            ("change", change["id"]),
            ("status", change["status"]),
            ("note", change["note"]),
            ("reason", change["reason"]),
            ("of", change["node"]),
            ("drafted", f"{change['created_at']} by {change['created_by']}"),
            (
                "decided",
                change["decided_by"] and f"{change['decided_at']} by {change['decided_by']}",
            ),
            ("to be applied", due),
            ("applied", change["applied_at"]),
            (reverts, change["revert_at"] or (revert_s and f"{duration(revert_s)} after")),
            ("ended", change["ended_at"]),
            ("you may apply", "yes" if change["can_apply"] else None),
        ]
    )
    typer.echo()
    print_table(
        ["NODE", "POOL", "FIGURE", "WAS", "IS", "SETS", "CHANGED SINCE"],
        [
            [
                edit["node"],
                edit["pool"],
                _NAMES[name],
                _value(name, edit["before"][name]),
                _value(name, edit["current"][name]),
                _value(name, edit["set"][name]),
                "yes" if edit["is_stale"] else "no",
            ]
            for edit in change["edits"]
            for name in _NAMES
            if name in edit["set"]
        ],
        squeeze="NODE",
        keep_end=True,
    )


def print_preview(preview: Mapping[str, Any]) -> None:
    """Print the effect of a change of quotas."""
    print_fields(
        [
            ("from", preview["as_of"]),
            ("until", preview["until"] + (" (cut: too much work)" if preview["is_cut"] else "")),
            ("exact to", duration(preview["precision_s"])),
            ("ends assumed", preview["assumed_ends"] or None),
            *(
                ("overcommitted", pool["pool"])
                for pool in preview["pools"]
                if pool["is_overcommitted"]
            ),
        ]
    )
    changed = [quota for quota in preview["quotas"] if quota["before"] != quota["after"]]
    _section("Quotas", changed, _print_quotas)
    _section("Starts at another time", preview["starts"], _print_starts)
    _section("Preempted", preview["reclaimed"], _print_losses)
    _section("No longer preempted", preview["spared"], _print_losses)
    typer.echo()
    currency = preview["currency"] or ""
    devices = Devices(team["device"] for team in preview["teams"])
    print_table(
        ["TEAM", "POOL", "USE NOW", "AT END", "INSTEAD OF", devices.hours_head,
         f"COST {currency}".strip(), "SOONER", "LATER", "PREEMPTED", "AT RISK"],
        [
            [
                team["team"],
                team["pool"],
                *(
                    devices.count(team[f"use_{when}_mgpu"], team["device"])
                    for when in ("now", "after", "before")
                ),
                _signed(
                    _time(team, "after") - _time(team, "before"),
                    partial(devices.hours, device=team["device"]),
                ),
                _cost(team),
                team["jobs_sooner"],
                team["jobs_later"],
                team["jobs_reclaimed"],
                devices.hours(team["at_risk_mgpu_s"], team["device"]),
            ]
            for team in preview["teams"]
        ],
        squeeze="TEAM",
        keep_end=True,
    )  # fmt: skip
    hours = devices.hours_words
    tell(f"{hours} and cost are differences from the future without the change. AT RISK: {hours}.")


def _section(title: str, rows: Sequence[Mapping[str, Any]], show: Any) -> None:
    if not rows:
        return
    typer.echo(f"\n{title}:")
    show(rows[:_ROWS])
    if len(rows) > _ROWS:
        tell(f"And {len(rows) - _ROWS} more. Use -o json to see them.")


def _print_quotas(rows: Sequence[Mapping[str, Any]]) -> None:
    print_table(
        ["NODE", "POOL", "FIGURE", "WITHOUT", "WITH"],
        [
            [
                quota["node"],
                quota["pool"],
                _NAMES[name],
                _value(name, quota["before"][name]),
                _value(name, quota["after"][name]),
            ]
            for quota in rows
            for name in _NAMES
            if quota["before"][name] != quota["after"][name]
        ],
        squeeze="NODE",
    )


def _print_starts(rows: Sequence[Mapping[str, Any]]) -> None:
    devices = Devices(start["device"] for start in rows)
    print_table(
        ["JOB", "TEAM", devices.head, "WITHOUT", "WITH", "DIFFERENCE"],
        [
            [
                start["name"],
                start["team"],
                devices.count(start["mgpu"], start["device"]),
                start["before"] or "not by then",
                start["after"] or "not by then",
                ("at least " if start["is_at_least"] else "")
                + duration(abs(start["sooner_s"]))
                + (" sooner" if start["sooner_s"] > 0 else " later"),
            ]
            for start in rows
        ],
        squeeze="JOB",
    )


def _print_losses(rows: Sequence[Mapping[str, Any]]) -> None:
    devices = Devices(loss["device"] for loss in rows)
    print_table(
        ["JOB", "TEAM", devices.head, "NOTICE", f"{devices.hours_head} AT RISK"],
        [
            [
                loss["name"],
                loss["team"],
                devices.count(loss["mgpu"], loss["device"]),
                loss["noticed_at"],
                devices.hours(loss["at_risk_mgpu_s"], loss["device"]),
            ]
            for loss in rows
        ],
        squeeze="JOB",
    )


def _time(team: Mapping[str, Any], which: str) -> int:
    return int(team[f"guaranteed_{which}_mgpu_s"] + team[f"borrowed_{which}_mgpu_s"])


def _cost(team: Mapping[str, Any]) -> str:
    before, after = team["cost_before_nano"], team["cost_after_nano"]
    return (
        "-"
        if before is None or after is None
        else _signed(after - before, lambda nano: money_text(nano, None))
    )


def _signed(amount: int, text: Any) -> str:
    return f"{'-' if amount < 0 else ''}{plain(text(abs(amount)))}"
