"""`tidegate simulate`: how a job trace fares under quotas and a policy; needs no server."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.errors import CliError
from cli.output import duration, print_table, tell
from cli.submitting import seconds
from primitives.units import MGPU_PER_GPU

if TYPE_CHECKING:
    from simulator.traces import Trace

_BAR = 24


def simulate(
    trace: Annotated[
        Path, typer.Argument(help="Jobs: CSV of Philly or Alibaba openb, or SWF; also gzipped.")
    ],
    quotas: Annotated[Path, typer.Option(help="Who is guaranteed what: CSV or YAML.")],
    policy: Annotated[
        Path | None,
        typer.Option(help="YAML, as `policy get -o yaml` prints it. Without it, the defaults."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(help="GPUs of the fleet.", min=1, max=1_000_000)
    ] = None,
    gpus_per_node: Annotated[int, typer.Option(help="GPUs of each node.", min=1, max=1024)] = 8,
    nodes: Annotated[
        Path | None, typer.Option(help="The fleet from a file of nodes (openb), not --gpus.")
    ] = None,
    scale_quotas: Annotated[
        bool, typer.Option("--scale-quotas", help="Guarantees are shares: scale to the fleet.")
    ] = False,
    team_column: Annotated[
        str | None, typer.Option(help="The trace's column that names the team.")
    ] = None,
    first: Annotated[
        int | None, typer.Option(help="Only the first N jobs by submit time.", min=1)
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Run eight other policies on the same jobs.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this policy; may be given again.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For all that is drawn at random.")] = 1,
    cycle: Annotated[str, typer.Option(help="Decide at multiples of this: 60s, 5m.")] = "60s",
    checkpointable: Annotated[
        int, typer.Option(help="Percent of the jobs that go on from a checkpoint.")
    ] = 70,
    checkpoint_every: Annotated[str, typer.Option(help="Work between two checkpoints.")] = "30m",
    save: Annotated[str, typer.Option(help="What writing one takes after a notice.")] = "1m",
    restart: Annotated[str, typer.Option(help="What a second attempt loses at first.")] = "2m",
    strict_after: Annotated[
        str, typer.Option(help="In baselines, nobody passes who has waited this long.")
    ] = "12h",
    limit_error: Annotated[
        int, typer.Option(help="Spread of time limits where the trace has none, in percent.")
    ] = 50,
    failures_every: Annotated[
        str | None, typer.Option(help="Mean time between failures of a node; without it, none.")
    ] = None,
    repair: Annotated[str, typer.Option(help="How long a failed node is away.")] = "4h",
    credits: Annotated[
        bool, typer.Option("--credits/--no-credits", help="Teams earn and pay credits.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Write curves and figures as one HTML page.")
    ] = None,
) -> None:
    """Replay a job trace in virtual time under quotas and a policy, and judge the schedule.

    Jobs are placed on nodes, whole or not at all. The same input and seed give the same figures.
    The guide says what each figure means. No server is asked.
    """
    # The only command that is no REST client; others need not wait for what it loads.
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
        raise CliError("--baselines runs all policies and --only some: give one of the two.")
    wanted = set(only or [OURS]).union(BASELINES if baselines else ())
    if unknown := sorted(wanted - POLICIES.keys()):
        raise CliError(f"There is no policy {unknown[0]!r}; there are {', '.join(POLICIES)}.")
    if picture is not None and picture.suffix.lower() not in (".html", ".htm"):
        ends = "give a name that ends in .html or .htm"
        shown = "for a PNG or a PDF, open the page in a browser and take a screenshot or print it"
        raise CliError(f"--picture {picture}: it is an HTML page; {ends}; {shown}.")
    interval_s = seconds(failures_every, "--failures-every")
    if interval_s == 0:
        raise CliError(
            f"--failures-every {failures_every}: leave it out for none, else 1s or more."
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
        title = f"{trace.name} on {_counted(scene.capacity_mgpu // MGPU_PER_GPU, 'GPU')}"
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
        f"{_counted(len(works), 'job')} in {duration(works[-1].job.submit_s)} on "
        f"{_counted(len(scene.machines), 'node')} with "
        f"{_counted(scene.capacity_mgpu // MGPU_PER_GPU, 'GPU')}."
    )
    print_table(["", *(one.policy for one in results)], table(results))


def _tell_what_is_not_read(trace: Trace, name: str) -> None:
    """On standard error: what the figures leave out of the file `name`."""
    if trace.left_out:
        rows = _counted(trace.left_out, "row")
        tell(
            f"Left out, for holding no GPU, never running or having no time of submission: {rows} "
            f"of {name}."
        )
    if trace.in_parts:
        jobs = _counted(trace.in_parts, "job")
        tell(f"Left out, for want of a line that sums up their parts: {jobs} of {name}.")
    if trace.unused:
        tell(f"Not used of {name}: {', '.join(trace.unused)}.")


def _tell_what_lacks_cpu_or_memory(
    unstated: Mapping[str, int], refused: Sequence[str], *, count: int, file: str
) -> None:
    """On standard error: how many of `count` nodes do not say what they have, by column, and which
    jobs could start on no nodes for that alone."""
    for column, unknown in unstated.items():
        what = "MiB of memory" if column == "memory_mib" else "milli-CPU"
        tell(
            f"Not counted on {unknown:,} of {_counted(count, 'node')}: the {what} that jobs want, "
            f"as nothing says how much there is; say it in column {column} of {file}."
        )
    if refused:
        tell(
            "Refused, as not enough nodes have the CPU or memory that each of theirs needs: "
            f"{_counted(len(refused), 'job')}, the first is {refused[0]}."
        )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _Bar:
    """Progress on standard error, where that is a terminal."""

    def __init__(self, policies: int) -> None:
        self._is_shown = sys.stderr.isatty()
        self._policies = policies
        self._names: list[str] = []
        self._text = ""

    def show(self, policy: str, done: int, total: int) -> None:
        """`done` of `total` jobs have come under `policy`."""
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
