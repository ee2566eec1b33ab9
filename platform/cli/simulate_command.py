"""`tidegate simulate`: replay a job trace under quotas and a policy, without a server."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.errors import CliError
from cli.output import counted, duration, print_table, tell
from cli.submitting import seconds
from primitives.units import MGPU_PER_GPU

if TYPE_CHECKING:
    from simulator.traces import Trace

_BAR = 24


def simulate(
    trace: Annotated[
        Path, typer.Argument(help="Jobs: CSV of Philly or Alibaba openb, or SWF; also gzipped.")
    ],
    quotas: Annotated[Path, typer.Option(help="Guarantees: CSV or YAML.")],
    policy: Annotated[
        Path | None,
        typer.Option(help="YAML, as from `policy get -o yaml`. Default: the default policy."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(help="Total GPUs of the fleet.", min=1, max=1_000_000)
    ] = None,
    gpus_per_node: Annotated[int, typer.Option(help="GPUs per node.", min=1, max=1024)] = 8,
    nodes: Annotated[
        Path | None, typer.Option(help="File of the fleet's nodes (openb), instead of --gpus.")
    ] = None,
    scale_quotas: Annotated[
        bool, typer.Option("--scale-quotas", help="Scale the guarantees to the fleet.")
    ] = False,
    team_column: Annotated[
        str | None, typer.Option(help="Column of the trace with the team.")
    ] = None,
    first: Annotated[
        int | None, typer.Option(help="Only the first N jobs by submit time.", min=1)
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also run eight other policies on the same jobs.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only this policy. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 1,
    cycle: Annotated[str, typer.Option(help="Interval of decisions: 60s, 5m.")] = "60s",
    checkpointable: Annotated[
        int, typer.Option(help="Percentage of jobs that resume from a checkpoint.")
    ] = 70,
    checkpoint_every: Annotated[str, typer.Option(help="Work between two checkpoints.")] = "30m",
    save: Annotated[str, typer.Option(help="Duration of a checkpoint after a notice.")] = "1m",
    restart: Annotated[
        str, typer.Option(help="Time lost at the start of a second attempt.")
    ] = "2m",
    strict_after: Annotated[
        str, typer.Option(help="In baselines, no job passes one that has waited this long.")
    ] = "12h",
    limit_error: Annotated[
        int, typer.Option(help="Spread of time limits if the trace has none, in percent.")
    ] = 50,
    failures_every: Annotated[
        str | None, typer.Option(help="Mean time between failures of a node. Default: none.")
    ] = None,
    repair: Annotated[str, typer.Option(help="Repair time of a failed node.")] = "4h",
    credits: Annotated[
        bool, typer.Option("--credits/--no-credits", help="Teams earn and pay credits.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Write curves and figures to this HTML page.")
    ] = None,
) -> None:
    """Replay a job trace in virtual time under quotas and a policy, and rate the schedule.

    Jobs are placed on nodes, completely or not at all. The same input and seed give the same
    figures. The guide explains the figures. This command works offline.
    """
    # The simulator is imported here, because no other command needs it and it takes time.
    from simulator.comparison import BASELINES, OURS, POLICIES, compare, without_place
    from simulator.picture import page
    from simulator.policy_file import read_policy
    from simulator.report import document, table
    from simulator.scene import read_quotas, stage, uniform_fleet
    from simulator.traces import (
        TraceError,
        read_machines,
        read_trace,
        unstated,
        with_alternatives,
    )
    from simulator.workload import Settings, prepare

    if only and baselines:
        raise CliError("Give either --baselines (all policies) or --only, not both.")
    wanted = set(only or [OURS]).union(BASELINES if baselines else ())
    if unknown := sorted(wanted - POLICIES.keys()):
        raise CliError(f"There is no policy {unknown[0]!r}. Known: {', '.join(POLICIES)}.")
    if picture is not None and picture.suffix.lower() not in (".html", ".htm"):
        ends = "give a name that ends in .html or .htm"
        shown = "for a PNG or a PDF, open the page in a browser and take a screenshot or print it"
        raise CliError(f"--picture {picture}: it is an HTML page; {ends}; {shown}.")
    interval_s = seconds(failures_every, "--failures-every")
    if interval_s == 0:
        raise CliError(
            f"--failures-every {failures_every}: omit it for no failures, or give 1s or more."
        )
    try:
        given = read_policy(policy)
        tree = given.ranked(read_quotas(quotas))
        settings = Settings(
            seed=seed,
            checkpointable_percent=checkpointable,
            checkpoint_interval_s=seconds(checkpoint_every, "--checkpoint-every") or 0,
            save_s=seconds(save, "--save") or 0,
            restart_s=seconds(restart, "--restart") or 0,
            cycle_s=seconds(cycle, "--cycle") or 0,
            strict_after_s=seconds(strict_after, "--strict-after") or 0,
            limit_error_percent=limit_error,
            failure_interval_s=interval_s or 0,
            repair_s=seconds(repair, "--repair") or 0,
            has_credits=credits,
        )
        size = gpus or tree.gpus
        if nodes is None and size is None:
            raise CliError("How large is the fleet? Give --gpus, or --nodes FILE.")
        machines = read_machines(nodes) if nodes else uniform_fleet(size or 0, gpus_per_node)
        found = read_trace(trace, gpus_per_node=gpus_per_node, team_column=team_column)
        works = prepare(found.jobs, settings)[:first]
        jobs = [work.job for work in works]
        scene, teams = stage(
            tree,
            with_alternatives(machines, jobs),
            given.policy,
            [job.team for job in jobs],
            scale=scale_quotas,
        )
    except (TraceError, ValueError) as error:
        raise CliError(str(error)) from None
    bar = _Bar(sum(1 for name in POLICIES if name in wanted))
    results = compare(works, scene, settings, teams, sorted(wanted), bar.show)
    bar.end()
    if picture is not None:
        title = f"{trace.name} on {counted(scene.capacity_mgpu // MGPU_PER_GPU, 'GPU')}"
        try:
            picture.write_text(page(results, scene, title=title), "utf-8")
        except OSError as error:
            raise CliError(f"{picture}: {error.strerror}") from None
    _tell_what_is_not_read(found, trace.name)
    _tell_what_lacks_cpu_or_memory(
        unstated(jobs, scene.machines),
        [work.job.id for work in without_place(works, scene)],
        count=len(scene.machines),
        file=nodes.name if nodes else "a file for --nodes",
    )
    if tree.unused:
        tell(f"Not used of {quotas.name}: {', '.join(tree.unused)}; give a policy with --policy.")
    if as_json:
        typer.echo(json.dumps(document(results, works, scene, settings), indent=2))
        return
    if unguaranteed := sorted(team for team, mgpu in scene.teams.items() if not mgpu):
        tell(
            f"Without a guarantee: {', '.join(unguaranteed[:5])}"
            + ", ..." * (len(unguaranteed) > 5)
        )
    tell(
        f"{counted(len(works), 'job')} in {duration(works[-1].job.submit_s)} on "
        f"{counted(len(scene.machines), 'node')} with "
        f"{counted(scene.capacity_mgpu // MGPU_PER_GPU, 'GPU')}."
    )
    print_table(["", *(one.policy for one in results)], table(results))


def _tell_what_is_not_read(trace: Trace, name: str) -> None:
    """Print on standard error which parts of the file `name` the figures omit."""
    if trace.left_out:
        rows = counted(trace.left_out, "row")
        tell(f"Omitted, because they have no GPU, no run or no submit time: {rows} of {name}.")
    if trace.in_parts:
        jobs = counted(trace.in_parts, "job")
        tell(f"Omitted, because no line sums up their parts: {jobs} of {name}.")
    if trace.unused:
        tell(f"Not used of {name}: {', '.join(trace.unused)}.")


def _tell_what_lacks_cpu_or_memory(
    unstated: Mapping[str, int], refused: Sequence[str], *, count: int, file: str
) -> None:
    """Print on standard error which nodes have unknown CPU or memory, and which jobs were refused.

    Counts the unknown of `count` nodes by column. The jobs could start on no nodes for that reason
    alone.
    """
    for column, unknown in unstated.items():
        what = "MiB of memory" if column == "memory_mib" else "milli-CPU"
        tell(
            f"Not checked on {unknown:,} of {counted(count, 'node')}: the {what} of jobs, because "
            f"the nodes' own is unknown. Add column {column} to {file}."
        )
    if refused:
        tell(
            "Refused, because too few nodes have the CPU or memory that these jobs need: "
            f"{counted(len(refused), 'job')}, the first is {refused[0]}."
        )


class _Bar:
    """A progress bar on standard error, if that is a terminal."""

    def __init__(self, policies: int) -> None:
        self._is_shown = sys.stderr.isatty()
        self._policies = policies
        self._names: list[str] = []
        self._text = ""

    def show(self, policy: str, done: int, total: int) -> None:
        """Show that `done` of `total` jobs were simulated under `policy`."""
        if not self._is_shown:
            return
        if policy not in self._names:
            self._names.append(policy)
        filled = _BAR * done // max(1, total)
        text = (
            f"{len(self._names)}/{self._policies} {policy:<12} [{'#' * filled:<{_BAR}}]"
            f" {100 * done // max(1, total):3d} %"
        )
        if text != self._text:
            self._text = text
            typer.echo(f"\r{text}", nl=False, err=True)

    def end(self) -> None:
        """Clear the line."""
        if self._text:
            typer.echo("\r\x1b[K", nl=False, err=True)
