"""Commands that add, change and check clusters and pools."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.errors import REFUSED, CliError
from cli.fleet_commands import LISTED_MAX, ClusterArgument, PoolArgument, address_of
from cli.output import Devices, Format, Output, gpus, print_data, print_fields, print_table, tell

#: The most bytes of a file of options.
_BYTES_MAX = 1_000_000

OptionsFile = Annotated[
    Path | None,
    typer.Option("--options", help="File of its options, in YAML or JSON; - is standard input."),
]
Kind = Annotated[str, typer.Option(help="local, slurm or kubernetes.")]
Device = Annotated[str | None, typer.Option(help="gpu or cpu. Default of a new pool: gpu.")]
Weight = Annotated[
    int | None,
    typer.Option(min=1, help="Worth of one device relative to the reference GPU, per mille."),
]
Description = Annotated[str | None, typer.Option(help="A line for people.")]


def cluster_create(
    ctx: typer.Context,
    name: ClusterArgument,
    kind: Kind,
    options: OptionsFile = None,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Nothing starts on it before `cluster enable`.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Add a cluster. The portal connects to it at once. `cluster test` tests options first."""
    body = {"name": name, "kind": kind, "options": _options(options), "is_enabled": not disabled}
    made = open_api(ctx).post("clusters", body, key=str(uuid.uuid4()))
    if output is not Format.TABLE:
        print_data(made, output)
    tell(f"{name} is added. `tidegate clusters` shows whether it answers.")


def cluster_set(ctx: typer.Context, name: ClusterArgument, options: OptionsFile = None) -> None:
    """Replace all options of a cluster."""
    api = open_api(ctx)
    api.patch(address_of(api, "cluster", name), {"options": _options(options)})
    tell(f"The options of {name} are replaced.")


def cluster_enable(ctx: typer.Context, name: ClusterArgument) -> None:
    """Let jobs start on a cluster again."""
    api = open_api(ctx)
    api.patch(address_of(api, "cluster", name), {"is_enabled": True})
    tell(f"Jobs may start on {name} as soon as it answers.")


def cluster_disable(ctx: typer.Context, name: ClusterArgument) -> None:
    """Let no job start on a cluster. Running jobs continue, and its capacity no longer counts."""
    api = open_api(ctx)
    api.patch(address_of(api, "cluster", name), {"is_enabled": False})
    tell(f"Nothing new starts on {name}.")


def cluster_test(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Its name. Without: a new one.")] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of a new one.")] = None,
    options: OptionsFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Ask a cluster for its nodes once. Nothing is stored, here or there.

    With a name, its stored options or those of --options are tested. Without a name, give --kind
    and --options. Exit codes: 0 it answers; 3 it does not, or the options are refused.
    """
    api = open_api(ctx)
    if (name is None) == (kind is None):
        raise CliError("Give the name of a cluster, or --kind and --options of a new one.")
    if name is None:
        found = api.post("clusters/check", {"kind": kind, "options": _options(options)})
    else:
        body = {} if options is None else {"options": _options(options)}
        found = api.post(f"{address_of(api, 'cluster', name)}/check", body)
    if output is not Format.TABLE:
        print_data(found, output)
    elif found["pools"]:
        devices = Devices(pool["device"] for pool in found["pools"])
        print_table(
            ["POOL", f"HEALTHY {devices.head}", "NODES"],
            [
                [
                    pool["pool"],
                    f"{gpus(pool['healthy_mgpu'])}/"
                    + devices.count(pool["capacity_mgpu"], pool["device"]),
                    f"{pool['nodes_healthy']}/{pool['nodes']}",
                ]
                for pool in found["pools"]
            ],
        )
    if not found["is_answered"]:
        raise CliError(f"It does not answer: {found['message']}", exit_code=REFUSED)
    tell(found["message"] or "It answers.")


def pool_list(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List the pools. GUARANTEED is the sum over all organizations, for platform administrators."""
    items = list(open_api(ctx).items("pools", most=LISTED_MAX))
    if output is not Format.TABLE:
        print_data(items, output)
        return
    if not items:
        tell("No pools yet. A platform administrator adds the first one.")
        return
    devices = Devices(pool["device"] for pool in items)
    print_table(
        ["POOL", devices.head, "GUARANTEED", "WORTH", "STATE", "ALIASES"],
        [
            [
                pool["name"],
                devices.count(pool["capacity_mgpu"], pool["device"]),
                "-" if pool["guaranteed_mgpu"] is None else gpus(pool["guaranteed_mgpu"]),
                pool["weight"],
                "archived" if pool["archived_at"] else "in use",
                ", ".join(pool["aliases"]) or "-",
            ]
            for pool in items
        ],
        squeeze="ALIASES",
    )


def pool_create(
    ctx: typer.Context,
    name: PoolArgument,
    description: Description = None,
    device: Device = None,
    weight: Weight = None,
    alias: Annotated[
        list[str] | None, typer.Option(help="Another name of its GPUs. Repeatable.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Add a pool. Clusters report their nodes under its name. For platform administrators."""
    body = _given(description, device, weight) | {"name": name}
    if alias:
        body["aliases"] = alias
    _print_pool(open_api(ctx).post("pools", body, key=str(uuid.uuid4())), output)


def pool_set(
    ctx: typer.Context,
    name: PoolArgument,
    description: Description = None,
    device: Device = None,
    weight: Weight = None,
    output: Output = Format.TABLE,
) -> None:
    """Change a pool. Its name stays. `pool alias` changes its other names."""
    body = _given(description, device, weight)
    if not body:
        raise CliError("Nothing to change: give --description, --device or --weight.")
    api = open_api(ctx)
    _print_pool(api.patch(address_of(api, "pool", name), body), output)


def _given(description: str | None, device: str | None, weight: int | None) -> dict[str, Any]:
    every = {"description": description, "device": device, "weight": weight}
    return {name: value for name, value in every.items() if value is not None}


def _print_pool(pool: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(pool, output)
        return
    print_fields([(name, pool[name]) for name in ("name", "description", "device", "weight")])


def _options(file: Path | None) -> dict[str, Any]:
    """Return the options in a file. Raises CliError for one that is missing or no mapping."""
    import yaml  # imported here, so that `--help` is quick

    if file is None:
        raise CliError("Give --options with a file of the cluster's options.")
    try:
        if str(file) == "-":
            text = sys.stdin.read(_BYTES_MAX)
        else:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(_BYTES_MAX)
        found = yaml.safe_load(text)
    except OSError as error:
        raise CliError(f"Cannot read {file}: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CliError(f"{file} is not YAML: {error}") from error
    if not isinstance(found, dict):
        raise CliError(f"{file} must be a mapping of the cluster's options.")
    return found
