"""The command `tidegate submit`, from its options to the jobs of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

import typer
from typer.core import TyperCommand

from cli.api import Api
from cli.budget_amounts import UNITS, integer_of
from cli.context import open_api
from cli.errors import REFUSED, CliError, Refused
from cli.job_lookup import job_or_array
from cli.job_text import print_notes, print_plan
from cli.output import Format, Output, now_utc, print_data, tell
from cli.schedule_commands import fits, print_recurrence, recurrence_of, request_of, tell_next
from cli.submitting import (
    begin_time,
    bodies_of,
    body_of,
    mebibytes,
    notice,
    number,
    pools,
    seconds,
    span,
    time_limit,
    variables,
)
from cli.template_commands import template_named


class SubmitCommand(TyperCommand):
    """Treats the words after `--` as the command to run, or as arguments of the file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Store the words after `--` in `ctx.meta["command"]`, and parse the others."""
        if "--" in args:
            at = args.index("--")
            ctx.meta["command"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def submit(
    ctx: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE [ARG...] | -- COMMAND...]",
            help="A batch script (with #SBATCH lines), a .yaml file with a Kubernetes manifest or "
            "with the members of a job request, or - for a script on standard input. Arguments of "
            "the script that start with a dash come after --: FILE -- --lr 0.1.",
        ),
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    team: Annotated[
        str | None,
        typer.Option(help="Path of the team, or its unique end (nlp). Default: TIDEGATE_TEAM."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Template of the team. Its members count where no file or option gives them. "
            "It may have the script, too.",
        ),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(help="Pool, or several separated by commas, the best first: h100,a100."),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(help="Total GPUs, such as 8 or 0.5, or least..most of an elastic job: 4..16."),
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Nodes, such as 2, or least..most: 2..8.")
    ] = None,
    gpus_per_node: Annotated[str | None, typer.Option(help="GPUs per node.")] = None,
    cpus_per_node: Annotated[
        int | None,
        typer.Option(
            help="CPUs per node. Default: those that come with its GPUs. In a pool of CPU cores, "
            "this is the size of the job, with --nodes."
        ),
    ] = None,
    memory_per_node: Annotated[
        str | None,
        typer.Option(help="Memory per node, such as 512M, 64G or 1T."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Time limit: 90s, 30m, 2h, 1d12h, or with colons as in #SBATCH: 2:00:00."
        ),
    ] = None,
    priority_class: Annotated[str | None, typer.Option("--class", help="Priority class.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the job.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Environment variable. Repeatable."),
    ] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Path of the checkpoint.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Run on this cluster only.")] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Feature that each node must have. Repeatable."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(help="Container image to run in, such as nvcr.io#nvidia/pytorch:24.05-py3."),
    ] = None,
    required_topology: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="Keep all nodes in one node, nvlink, rack or block. The job waits until it fits.",
        ),
    ] = None,
    preferred_topology: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Prefer nodes in one node, nvlink, rack or block."),
    ] = None,
    launch: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="batch: the script runs once and starts tasks with srun. per_node: it runs on "
            "every node. Default: batch for a file with #SBATCH lines.",
        ),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option("--chdir", metavar="FOLDER", help="Folder in which the script starts."),
    ] = None,
    output_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File that gets the output beside the log, with Slurm's patterns: logs/%x-%j.out.",
        ),
    ] = None,
    error_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The same for errors. Default: the output's file."),
    ] = None,
    appends_output: Annotated[
        bool,
        typer.Option("--append-output", help="Add to these files instead of emptying them."),
    ] = False,
    ntasks: Annotated[
        int | None, typer.Option(min=1, help="Of a batch job: tasks that srun starts.")
    ] = None,
    ntasks_per_node: Annotated[
        int | None, typer.Option(min=1, help="Of a batch job: tasks on each node.")
    ] = None,
    cpus_per_task: Annotated[
        int | None, typer.Option(min=1, help="Of a batch job: CPUs of each task.")
    ] = None,
    gpus_per_task: Annotated[
        int | None, typer.Option(min=1, help="Of a batch job: GPUs that each task sees.")
    ] = None,
    signal: Annotated[
        str | None,
        typer.Option(
            metavar="[B:]SIGNAL[@SECONDS]",
            help="Signal before a stop (TERM, USR1, USR2, INT or HUP), and how long before the "
            "time limit; B: for the script's shell alone.",
        ),
    ] = None,
    preemptible: Annotated[
        bool,
        typer.Option("--preemptible", help="Allow preemption even inside the guarantee."),
    ] = False,
    no_requeue: Annotated[
        bool, typer.Option("--no-requeue", help="Fail instead of being requeued when preempted.")
    ] = False,
    requeue_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CAUSE",
            help="Queue it again after this end, too: time_limit, or an exit code. Repeatable.",
        ),
    ] = None,
    requeue_max: Annotated[
        int | None,
        typer.Option(help="How often it is queued again after such an end. Default: 10."),
    ] = None,
    cost_cap: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="Stop it with a notice once its charge reaches this, such as 50 or 12.50.",
        ),
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Submit the job on hold.")] = False,
    begin: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Earliest start: 2027-01-20T08:00:00Z, or after a delay: +90m, +2h.",
        ),
    ] = None,
    after_ok: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Start after this job succeeded. Repeatable."),
    ] = None,
    after_any: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Start after this job ended. Repeatable."),
    ] = None,
    after_not_ok: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Start after this job ended without success. Repeatable."),
    ] = None,
    singleton: Annotated[
        bool,
        typer.Option("--singleton", help="Start after your other jobs of this name are done."),
    ] = False,
    array: Annotated[
        str | None,
        typer.Option(
            help="Submit one task per index: 0-9, 1,3,5-7, 0-31:4. With %K, at most K run at once."
        ),
    ] = None,
    cron: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSION",
            help="Submit the job again and again, at the times of this expression as in crontab: "
            "'0 3 * * *'. Creates a schedule.",
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Of --cron: Europe/Berlin. Default: that of the organization."),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Of --cron, while the job before has not ended: allow (both go on), forbid (skip "
            "the new one) or replace (cancel the old one). Default: allow.",
        ),
    ] = None,
    starting_deadline: Annotated[
        str | None,
        typer.Option(help="Of --cron: a run that is later than this is missed: 10m, 1h."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show where and when the job would run. Submit nothing.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Submit a job, and print its id (with --array, the id of the array).

    With --cron, and for a CronJob, create a schedule and print its id. Each job of a Kubernetes
    manifest is submitted, or none if one of them would be refused.
    With --plan, show where and when it would run. Exit codes: 0 submitted (or the plan could run),
    3 refused (or could never run).
    """
    body = body_of(
        source,
        ctx.meta.get("command"),
        {
            "template": template,
            "arguments": arguments or None,
            "team": team,
            **pools(pool),
            **span(gpus, "gpus"),
            **span(nodes, "nodes"),
            "gpus_per_node": number(gpus_per_node, "--gpus-per-node"),
            "cpus_per_node": cpus_per_node,
            "memory_mib_per_node": mebibytes(memory_per_node, "--memory-per-node"),
            "time_limit_s": time_limit(time),
            "priority_class": priority_class,
            "name": name,
            "environment": variables(env or []),
            "checkpoint_path": checkpoint,
            "cluster": cluster,
            "features": feature or None,
            "image": image,
            "required_topology": required_topology,
            "preferred_topology": preferred_topology,
            "launch": launch,
            "folder": folder,
            "output_file": output_file,
            "error_file": error_file,
            "appends_output": True if appends_output else None,
            "ntasks": ntasks,
            "ntasks_per_node": ntasks_per_node,
            "cpus_per_task": cpus_per_task,
            "gpus_per_task": gpus_per_task,
            **notice(signal),
            "is_preemptible": True if preemptible else None,
            "is_requeueable": False if no_requeue else None,
            "requeue_on": requeue_on or None,
            "requeue_max": requeue_max,
            "cost_cap_nano": None
            if cost_cap is None
            else integer_of(cost_cap, UNITS["money"], "--cost-cap"),
            "held": True if hold else None,
            "begin_at": begin_time(begin, now=now_utc()),
            "is_singleton": True if singleton else None,
            "array": array,
        },
    )
    api = open_api(ctx)
    if after_ok or after_any or after_not_ok:
        body["depends_on"] = [
            {**job_or_array(api, job), "condition": condition}
            for condition, jobs in (
                ("succeeded", after_ok),
                ("ended", after_any),
                ("failed", after_not_ok),
            )
            for job in jobs or ()
        ]
    if "template" in body:
        chosen = template_named(api, str(body["template"]), body.get("team"))
        body |= {"template": chosen["id"], "team": chosen["team"]}
    if "team" not in body:
        if not api.settings.team:
            raise CliError("Which team? Give --team PATH, or set TIDEGATE_TEAM.")
        body["team"] = api.settings.team
    recurrence = recurrence_of(
        cron=cron,
        time_zone=time_zone,
        concurrency=concurrency,
        starting_deadline_s=seconds(starting_deadline, "--starting-deadline"),
    )
    requests = [request_of(one, recurrence) for one in bodies_of(body)]
    if plan or len(requests) > 1:
        # No job of a file is submitted if one of them would be refused.
        bad = 0
        for one in requests:
            planned = _planned(api, *one, is_only=len(requests) == 1)
            is_bad = planned is None or not fits(planned)
            if planned is not None and (plan or is_bad):
                _show_plan(planned, output)
            bad += is_bad
        if bad and not plan:
            raise CliError(
                f"Nothing was submitted: {bad} of the {len(requests)} jobs of the file would be "
                "refused.",
                exit_code=REFUSED,
            )
        if bad:
            raise typer.Exit(REFUSED)
        if plan:
            return
    for done, one in enumerate(requests):
        try:
            made = _posted(api, *one, key=str(uuid4()))
        except CliError:
            if done:
                tell(f"{done} of the {len(requests)} jobs of the file are submitted.")
            raise
        if output is not Format.TABLE:
            print_data(made, output)
            continue
        print_notes(made["notes"])
        typer.echo(made["array"]["id"] if made.get("array") else made["id"])
        if "next_at" in made:
            tell_next(made)


def _planned(
    api: Api, path: str, body: Mapping[str, Any], *, is_only: bool
) -> dict[str, Any] | None:
    """Return the plan of one job of a file; None where it is refused, which is told.

    A refusal of the only job is raised.
    """
    try:
        return _posted(api, path, body, dry_run="true")
    except Refused as refusal:
        if is_only:
            raise
        tell(f"Error: {refusal.message}")
        return None


def _posted(api: Api, path: str, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """Return the server's answer to a submission. The notes of a refusal are printed."""
    try:
        return api.post(path, body, **options)
    except Refused as refusal:
        print_notes(refusal.problem.get("notes") or [])
        raise


def _show_plan(found: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if "next_runs" in found:
        print_recurrence(found)
        found = found["plan"]
    print_notes(found["notes"])
    print_plan(found)
