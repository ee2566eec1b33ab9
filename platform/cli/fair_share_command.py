"""`tidegate fair-share`: the place of a node in the order of fair-share, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.context import open_api
from cli.output import Format, Output, level_text, print_data, print_table, tell
from primitives.units import gpu_hours


def fair_share(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="Path: ai-company/research.")],
    pool: Annotated[str, typer.Option(help="Name of the pool.")],
    output: Output = Format.TABLE,
) -> None:
    """Show the fair-share of a node, of the nodes above and below it, and why it comes when.

    FAIR SHARE is the part of the weight over the part of the recent use. Above 1 a node comes
    earlier. USED is decayed use in GPU-hours of the reference GPU. CSV has a line for each node.
    """
    found = open_api(ctx).get("fair-share", node=node, pool=pool)
    rows = [*found["above"], found["node"], *found["below"]]
    if output is not Format.TABLE:
        print_data(rows if output is Format.CSV else found, output)
        return
    print_table(
        ["NODE", "PLACE", "FAIR SHARE", "WEIGHT %", "USE %", "USED"],
        [
            [
                row["node"],
                f"{row['place']}/{row['siblings']}",
                level_text(row["level_permille"]),
                _percent(row["weight_permille"]),
                _percent(row["used_permille"]),
                gpu_hours(row["used_mgpu_s"]),
            ]
            for row in rows
        ],
        squeeze="NODE",
        keep_end=True,
    )
    tell(found["node"]["sentence"])
    days = found["node"]["half_life_s"] / 86_400
    tell(f"Use counts half after {days:g} days.")


def _percent(permille: int) -> str:
    return f"{permille / 10:.1f}"
