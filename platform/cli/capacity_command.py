"""`tidegate capacity`: free blocks of a pool by size, and who borrows and who starves."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.context import open_api
from cli.output import Devices, Format, Output, print_data, print_table, tell


def capacity(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="Path in your organization: ai-company.")],
    pool: Annotated[str, typer.Option(help="Name of the pool.")],
    output: Output = Format.TABLE,
) -> None:
    """Show the free blocks of a pool by size, and who borrows from whom and who starves.

    A block is a place for a job of that size. FRAGMENTED is the part of the free devices on nodes
    that are used in part. CSV has a line for each cluster.
    """
    found = open_api(ctx).get("capacity", node=node, pool=pool)
    if output is not Format.TABLE:
        print_data(found, output, rows="clusters" if output is Format.CSV else "")
        return
    device = found["device"]
    devices = Devices([device])
    print_table(
        ["CLUSTER", devices.head, "FREE", "FREE NODES", "FRAGMENTED", "BLOCKS"],
        [
            [
                one["cluster"] + ("" if one["is_accepting"] else " (starts nothing)"),
                devices.count(one["capacity_mgpu"], device),
                devices.count(one["free_mgpu"], device),
                f"{one['free_nodes']}/{one['nodes']}",
                f"{one['fragmented_permille'] / 10:.1f}%",
                " ".join(f"{block['devices']}:{block['blocks']}" for block in one["blocks"]) or "-",
            ]
            for one in found["clusters"]
        ],
        squeeze="CLUSTER",
    )
    if found["loans"]:
        print_table(
            ["WITHIN", "BORROWER", "LENDER", devices.head],
            [
                [
                    one["within"],
                    one["borrower"],
                    one["lender"],
                    devices.count(one["mgpu"], device),
                ]
                for one in found["loans"]
            ],
            squeeze="BORROWER",
            keep_end=True,
        )
    if found["starved"]:
        print_table(
            ["STARVED TEAM", "MISSING GUARANTEE", "WAITING", "SINCE"],
            [
                [
                    one["team"],
                    devices.count(one["missing_mgpu"], device),
                    devices.count(one["waiting_mgpu"], device),
                    one["waiting_since"] or "",
                ]
                for one in found["starved"]
            ],
            squeeze="STARVED TEAM",
            keep_end=True,
        )
    else:
        tell("No team waits inside of its guarantee.")
