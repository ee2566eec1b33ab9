"""Every option of sbatch 22.05, with what Tidegate makes of it.

docs/guide/from-slurm.md has this table; a test compares the two.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from jobs.submission.sbatch_notes import NotUnderstood


class Takes(StrEnum):
    """The kinds of value of an option. An optional value stands after `=`, or at the letter."""

    NOTHING = "nothing"
    OPTIONAL = "optional"
    VALUE = "value"


class Reading(StrEnum):
    """The outcome of an option."""

    READ = "read"
    NO_EFFECT = "no effect"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """An option. `told` is what it becomes, why it has no effect, or what to write instead."""

    name: str
    short: str | None
    takes: Takes
    reading: Reading
    told: str


_READ: tuple[tuple[str, str | None, str], ...] = (
    ("array", "a", "The tasks of a job array: `array`."),
    ("begin", "b", "`begin_at`, in the time zone of your organization, which the plan names."),
    ("constraint", "C", "`features` that all nodes have, with `&` between them."),
    ("cpus-per-gpu", None, "Times the GPUs of a node: `cpus_per_node`."),
    ("cpus-per-task", "c", "Times the tasks of a node: `cpus_per_node`."),
    (
        "dependency",
        "d",
        "`depends_on`, with IDs of Tidegate: afterok, afterany, afternotok. `singleton` is "
        "`is_singleton`.",
    ),
    ("error", "e", "`error_file`, beside the log; with the patterns of `--output`."),
    (
        "export",
        None,
        "`NAME=VALUE`: `environment`. `ALL`, `NONE` and names without a value have no effect, "
        "because nothing of your shell's environment is passed on.",
    ),
    ("gpus", "G", "The GPUs of the whole job: `gpus`; a type is a pool."),
    ("gpus-per-node", None, "`gpus_per_node`; a type is a pool."),
    (
        "gpus-per-task",
        None,
        "Times the tasks: `gpus_per_node`, or `gpus` where no nodes are named.",
    ),
    ("gres", None, "`gpu:NUMBER` or `gpu:TYPE:NUMBER`: `gpus_per_node`. The rest is told."),
    ("job-name", "J", "`name`."),
    ("kill-on-invalid-dep", None, "`yes` is what happens anyway; `no` has no effect."),
    ("mail-type", None, "No effect: choose mails with `tidegate notify set`."),
    ("mem", None, "`memory_mib_per_node`. 0, all of a node, has no effect."),
    ("mem-per-cpu", None, "Times the CPUs of a node: `memory_mib_per_node`."),
    ("mem-per-gpu", None, "Times the GPUs of a node: `memory_mib_per_node`."),
    ("nodes", "N", "`nodes`; a range is an elastic job: `nodes_min`."),
    ("ntasks", "n", "`ntasks`; with `--ntasks-per-node` they give the nodes."),
    ("ntasks-per-gpu", None, "Times the GPUs: `ntasks`."),
    ("ntasks-per-node", None, "`ntasks_per_node`."),
    ("partition", "p", "The pool or pools of that name; other names are told."),
    ("qos", "q", "The priority class of that name; other names are told."),
    ("signal", None, "`notice_signal`, `signal_ahead_s`; `B:` is `signals_shell_only`."),
    ("tasks-per-node", None, "The same as `--ntasks-per-node`."),
    ("time", "t", "`time_limit`, rounded up to minutes."),
    ("chdir", "D", "`folder`. A relative one is made below the job's own folder."),
    (
        "open-mode",
        None,
        "`append`: `appends_output`. `truncate`, the default, empties the files at each start.",
    ),
    (
        "output",
        "o",
        "`output_file`, beside the log. All patterns of Slurm 22.05 count: `%j`, `%x`, `%4t`. "
        "`none` and `/dev/null` mean the log alone.",
    ),
)
_READ_OPTIONAL: tuple[tuple[str, str | None, str], ...] = (
    (
        "exclusive",
        None,
        "Whole nodes, with all their GPUs, where the file names no GPUs and no CPUs. Else ask for "
        "all GPUs of a node to have it alone.",
    ),
)
_READ_WITHOUT_VALUE: tuple[tuple[str, str | None, str], ...] = (
    ("hold", "H", "`held`."),
    ("no-requeue", None, "`is_requeueable` is false."),
    ("requeue", None, "`is_requeueable` is true."),
)

_NODE_SHARE = "CPUs and memory come with the GPUs of a node, or by --cpus-per-task and --mem."
_PAYER = "The team decides whose quota and budget are used."
_MAIL = "Choose mails with `tidegate notify set`."
_ORDER = "The priority class decides the order."
_PLACEMENT = "Placement is chosen by Tidegate."
_COMMAND = "It concerns the sbatch command only."
_CLUSTER_SETUP = "The cluster's own setting applies."
_CONTAINER = "The cluster decides how containers are set up."
_STEPS = "Give it to srun."

_NO_EFFECT: tuple[tuple[str, str | None, str], ...] = (
    ("account", "A", _PAYER),
    ("acctg-freq", None, _CLUSTER_SETUP),
    ("batch", None, "The script runs once on each node of the job."),
    ("comment", None, "Comments are not kept."),
    ("context", None, _CLUSTER_SETUP),
    ("core-spec", "S", _CLUSTER_SETUP),
    ("cores-per-socket", None, _NODE_SHARE),
    ("cpu-freq", None, _CLUSTER_SETUP),
    ("delay-boot", None, _CLUSTER_SETUP),
    ("distribution", "m", _STEPS),
    ("extra-node-info", "B", _NODE_SHARE),
    ("gpu-bind", None, "Bind GPUs in the script."),
    ("gpu-freq", None, _CLUSTER_SETUP),
    ("gres-flags", None, _PLACEMENT),
    ("hint", None, _NODE_SHARE),
    ("mail-user", None, _MAIL),
    ("mcs-label", None, _CLUSTER_SETUP),
    ("mem-bind", None, "Bind memory in the script."),
    ("mincpus", None, _NODE_SHARE),
    ("network", None, _CLUSTER_SETUP),
    ("ntasks-per-core", None, _NODE_SHARE),
    ("ntasks-per-socket", None, _NODE_SHARE),
    ("ntasks-per-tres", None, "Write --ntasks-per-gpu."),
    ("power", None, _CLUSTER_SETUP),
    ("prefer", None, "Features are only required: write --constraint."),
    ("priority", None, _ORDER),
    ("profile", None, _CLUSTER_SETUP),
    ("sockets-per-node", None, _NODE_SHARE),
    ("switches", None, "Write the topology into the field `preferred_topology`."),
    ("thread-spec", None, _CLUSTER_SETUP),
    ("threads-per-core", None, _NODE_SHARE),
    ("time-min", None, "The time limit is not shortened to start earlier."),
    ("tmp", None, _NODE_SHARE),
    ("wait-all-nodes", None, "The script starts when all nodes are ready, in any case."),
    ("wckey", None, _PAYER),
)
_NO_EFFECT_OPTIONAL: tuple[tuple[str, str | None, str], ...] = (
    ("get-user-env", None, "Nothing of your shell's environment is passed on."),
    ("nice", None, _ORDER),
    ("no-kill", "k", "A job that loses a node ends and is queued again."),
    ("propagate", None, _CLUSTER_SETUP),
)
_NO_EFFECT_WITHOUT_VALUE: tuple[tuple[str, str | None, str], ...] = (
    ("contiguous", None, _PLACEMENT),
    ("ignore-pbs", None, _COMMAND),
    ("overcommit", "O", _STEPS),
    ("oversubscribe", "s", "GPUs are never shared between jobs."),
    ("parsable", None, _COMMAND),
    ("quiet", "Q", _COMMAND),
    ("reboot", None, "Nodes are not rebooted for a job."),
    ("spread-job", None, _PLACEMENT),
    ("use-min-nodes", None, _PLACEMENT),
    ("verbose", "v", _COMMAND),
    ("wait", "W", "It concerns the sbatch command only; see `tidegate wait`."),
)

_SIZE = "Say --gpus, or --gpus-per-node and --nodes."
_CLUSTER = "Name the cluster in the field `cluster` (`tidegate submit --cluster NAME`)."
_IDENTITY = "Jobs run as the person who submits them; remove the line."
_BURST = "Burst buffers are not offered; remove the line."
_NO_NODES = "Nodes cannot be chosen; choose a pool or a cluster."

_REFUSED: tuple[tuple[str, str | None, str], ...] = (
    ("bb", None, _BURST),
    ("bbf", None, _BURST),
    ("cluster", None, _CLUSTER),
    ("cluster-constraint", None, _CLUSTER),
    ("clusters", "M", _CLUSTER),
    ("container", None, "Name an image with --container-image."),
    ("deadline", None, "Deadlines are not offered; remove the line."),
    ("exclude", "x", "Nodes cannot be left out; choose a pool or a cluster."),
    ("export-file", None, "Name the variables: --export=NAME=VALUE."),
    ("gid", None, _IDENTITY),
    ("gpus-per-socket", None, _SIZE),
    ("input", "i", "Redirect standard input in the script."),
    ("licenses", "L", "Licences cannot be asked for; remove the line."),
    ("nodefile", "F", _NO_NODES),
    ("nodelist", "w", _NO_NODES),
    ("reservation", None, "Reservations of a cluster cannot be used; remove the line."),
    ("uid", None, _IDENTITY),
    ("wrap", None, "Write the command into the script."),
)
_REFUSED_WITHOUT_VALUE: tuple[tuple[str, str | None, str], ...] = (
    ("help", "h", "It concerns the sbatch command only; remove the line."),
    ("test-only", None, "Use `tidegate submit --plan` instead."),
    ("usage", None, "It concerns the sbatch command only; remove the line."),
    ("version", "V", "It concerns the sbatch command only; remove the line."),
)


def _table(
    reading: Reading, takes: Takes, rows: Iterable[tuple[str, str | None, str]]
) -> list[Option]:
    return [Option(name, short, takes, reading, told) for name, short, told in rows]


#: The options of sbatch itself, by name.
OPTIONS: dict[str, Option] = {
    option.name: option
    for option in sorted(
        [
            *_table(Reading.READ, Takes.VALUE, _READ),
            *_table(Reading.READ, Takes.OPTIONAL, _READ_OPTIONAL),
            *_table(Reading.READ, Takes.NOTHING, _READ_WITHOUT_VALUE),
            *_table(Reading.NO_EFFECT, Takes.VALUE, _NO_EFFECT),
            *_table(Reading.NO_EFFECT, Takes.OPTIONAL, _NO_EFFECT_OPTIONAL),
            *_table(Reading.NO_EFFECT, Takes.NOTHING, _NO_EFFECT_WITHOUT_VALUE),
            *_table(Reading.REFUSED, Takes.VALUE, _REFUSED),
            *_table(Reading.REFUSED, Takes.NOTHING, _REFUSED_WITHOUT_VALUE),
        ],
        key=lambda option: option.name,
    )
}

#: Options that the plugin pyxis adds to sbatch. They are known by their whole names.
PYXIS: dict[str, Option] = {
    option.name: option
    for option in [
        *_table(Reading.READ, Takes.VALUE, [("container-image", None, "`image`.")]),
        *_table(
            Reading.NO_EFFECT,
            Takes.NOTHING,
            [
                ("container-mount-home", None, _CONTAINER),
                ("no-container-mount-home", None, _CONTAINER),
                ("container-remap-root", None, _CONTAINER),
                ("no-container-remap-root", None, _CONTAINER),
                ("no-container-entrypoint", None, _CONTAINER),
                ("container-writable", None, _CONTAINER),
                ("container-readonly", None, _CONTAINER),
            ],
        ),
        *_table(
            Reading.REFUSED,
            Takes.VALUE,
            [
                ("container-env", None, "Write --export=NAME=VALUE."),
                ("container-mounts", None, "Container mounts are set for each cluster."),
                ("container-name", None, "Every start has a container of its own; name an image."),
                ("container-save", None, "Containers are not saved; build the image beforehand."),
                ("container-workdir", None, "Write --chdir=FOLDER."),
            ],
        ),
        *_table(
            Reading.REFUSED,
            Takes.NOTHING,
            [("container-entrypoint", None, "Call the entry point in the script.")],
        ),
    ]
}

SHORT: dict[str, Option] = {
    option.short: option for option in OPTIONS.values() if option.short is not None
}

#: Options of srun that people write into `#SBATCH` lines.
_OF_SRUN = frozenset({"label", "mpi", "kill-on-bad-exit", "cpu-bind", "pty", "unbuffered", "jobid"})


def option_named(name: str) -> Option:
    """Return the option with this name or unambiguous prefix, as getopt_long finds it.

    Raises NotUnderstood, with the name that was meant if there is a similar one.
    """
    exact = OPTIONS.get(name) or PYXIS.get(name)
    if exact is not None:
        return exact
    found = [option for option in OPTIONS.values() if name and option.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"--{option.name}" for option in found[:8])
        raise NotUnderstood(f"--{name[:40]} is ambiguous; write one of {names}.")
    if name in _OF_SRUN:
        raise NotUnderstood(f"--{name} is an option of srun; write it after srun in the script.")
    folded = name.lower().replace("_", "-")
    similar = [folded] if folded in OPTIONS else difflib.get_close_matches(folded, OPTIONS, n=1)
    instead = f"write --{similar[0]}" if similar else "remove it"
    raise NotUnderstood(f"--{name[:40]} is not an option of sbatch; {instead}.")
