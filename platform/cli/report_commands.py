"""Commands on quotas and reports."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, gpu_hours, gpus, money, print_data, print_table, tell

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_QUOTAS_MAX = 1_000

quota_app = typer.Typer(no_args_is_help=True, help="Quotas of the tree.", rich_markup_mode=None)
report_app = typer.Typer(no_args_is_help=True, help="Usage and cost.", rich_markup_mode=None)

Output = Annotated[Format, typer.Option("-o", "--output", help="How to print.")]


@quota_app.command("get")
def quota_get(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="Path: ai-company/research/nlp.")],
    pool: Annotated[str | None, typer.Option(help="Only this pool.")] = None,
    subtree: Annotated[bool, typer.Option("--subtree", help="And all that is below it.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show what a node of the tree is guaranteed, and what it uses."""
    which = {"subtree" if subtree else "node": node.rstrip("/")}
    quotas = list(open_api(ctx).items("quotas", most=_QUOTAS_MAX, pool=pool, **which))
    if output is not Format.TABLE:
        print_data(quotas, output)
        return
    if not quotas:
        tell(f"{node} has no quota" + (f" in {pool}." if pool else "."))
        return
    print_table(
        ["NODE", "POOL", "GUARANT", "MAY BORROW", "IN USE", "BORROWED", "LENT", "FREE", "WAIT"],
        [
            [
                quota["node"],
                quota["pool"],
                gpus(quota["guaranteed_mgpu"]),
                "any" if quota["borrow_limit_mgpu"] is None else gpus(quota["borrow_limit_mgpu"]),
                *(
                    gpus(quota["use"][f"{name}_mgpu"])
                    for name in ("in_use", "borrowed", "lent", "available", "waiting")
                ),
            ]
            for quota in quotas
        ],
        squeeze="NODE",
    )


@report_app.command("chargeback")
def chargeback(
    ctx: typer.Context,
    start: Annotated[str, typer.Option(help="2026-11-01, or 2026-11-01T00:00:00Z.")],
    end: Annotated[str, typer.Option(help="Not included; as --start.")],
    team: Annotated[str | None, typer.Option(help="A path and all below it.")] = None,
    organization: Annotated[str | None, typer.Option(help="A slug.")] = None,
    pool: Annotated[str | None, typer.Option(help="GPU pool.")] = None,
    group_by: Annotated[str | None, typer.Option(help="team or department.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show who used what in a period (UTC), and what it costs."""
    parameters = {
        "start": _moment(start, "--start"),
        "end": _moment(end, "--end"),
        "team": team,
        "organization": organization,
        "pool": pool,
        "group_by": group_by,
    }
    api = open_api(ctx)
    if csv:
        text = api.get_text("reports/chargeback", **parameters, format="csv")
        typer.echo(text, nl=not text.endswith("\n"))
        return
    report = api.get("reports/chargeback", **parameters)
    if output is not Format.TABLE:
        print_data(report, output)
        return
    rows = [
        [row["node"], row["pool"], *_amounts(row)]
        for row in [*report["rows"], {**report["totals"], "node": "total", "pool": ""}]
    ]
    currency = report["currency"] or ""
    print_table(
        ["NODE", "POOL", "GUARANTEED", "BORROWED", f"COST {currency}".strip(), "JOBS"],
        rows,
        squeeze="NODE",
    )
    tell(f"GPU-hours from {report['start']} to {report['end']}, as of {report['as_of']}.")
    if not report["check"]["is_equal"]:
        raise CliError("The rows do not add up to the meter's segments; tell an administrator.")


def _amounts(row: dict[str, int]) -> list[str]:
    return [
        gpu_hours(row["guaranteed_mgpu_s"]),
        gpu_hours(row["borrowed_mgpu_s"]),
        money(row["cost_nano"]),
        str(row["jobs"]),
    ]


def _moment(text: str, option: str) -> str:
    if _DAY.fullmatch(text):
        return f"{text}T00:00:00Z"
    if "T" not in text:
        raise CliError(f"{option} {text[:40]!r}: write 2026-11-01 or 2026-11-01T00:00:00Z.")
    return text
