"""Plans a step: which tasks `srun` starts on which of the job's nodes, and with which GPUs.

The defaults are those of srun(1): the job's tasks, or one task per node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from batch.command_line import Refused
from batch.places import Place
from batch.variables import tasks_by_node
from primitives.hostlist import expand

TASKS_MAX = 10_000
_GRES = re.compile(r"(?:gres:)?gpu(?::[A-Za-z0-9._-]+)*?(?::([0-9]+))?")
_COUNT = re.compile(r"(?:[A-Za-z0-9._-]*[A-Za-z][A-Za-z0-9._-]*:)?([0-9]+)")


class Task:
    """A task of a step, with its place.

    `rank` counts through the step, `local_rank` through the tasks on its node, and `node_rank` is
    the place of the node in the step. `devices` are the GPUs that it sees.
    """

    def __init__(
        self, rank: int, local_rank: int, node_rank: int, place: Place, devices: Sequence[int]
    ) -> None:
        self.rank = rank
        self.local_rank = local_rank
        self.node_rank = node_rank
        self.place = place
        self.devices = tuple(devices)


class Step:
    """The nodes of a step with the number of tasks on each, and its tasks in order of rank.

    `reserves` says that the step asked for GPUs itself, so no other such step may have them too.
    """

    def __init__(
        self, places: Sequence[Place], counts: Sequence[int], gpus: Gpus, *, is_cyclic: bool
    ) -> None:
        self.places = list(places)
        self.counts = list(counts)
        self.gpus = gpus
        self.is_cyclic = is_cyclic

    @property
    def reserves(self) -> bool:
        """Return whether the step has GPUs of its own."""
        return self.gpus.per_node is not None or self.gpus.per_task is not None

    def needs(self) -> list[int]:
        """Return how many GPUs it asks for on each node. Raises `Refused` if one lacks them."""
        needed = []
        for place, count in zip(self.places, self.counts, strict=True):
            gpus = self.gpus.per_node
            if gpus is None:
                gpus = (self.gpus.per_task or 0) * count
            if gpus > len(place.devices):
                raise Refused(
                    f"the step asks for {gpus} GPUs on {place.node}, where the job has "
                    f"{len(place.devices)}."
                )
            needed.append(gpus)
        return needed

    def tasks(self, held: Sequence[Sequence[int]]) -> list[Task]:
        """Return the tasks. `held` are the devices of the step on each of its nodes."""
        order = [(node, local) for node, count in enumerate(self.counts) for local in range(count)]
        if self.is_cyclic:
            order.sort(key=lambda place: (place[1], place[0]))
        return [
            Task(rank, local, node, self.places[node], self._devices(held[node], local))
            for rank, (node, local) in enumerate(order)
        ]

    def _devices(self, held: Sequence[int], local: int) -> Sequence[int]:
        each = self.gpus.per_task
        return held if each is None else held[local * each : (local + 1) * each]


class Gpus:
    """The GPUs that a step asks for. With neither, each task sees all that the job has there."""

    def __init__(self, *, per_node: int | None = None, per_task: int | None = None) -> None:
        self.per_node = per_node
        self.per_task = per_task


def plan_step(
    options: Mapping[str, str], environment: Mapping[str, str], places: Sequence[Place]
) -> Step:
    """Return the step that `options` describe. Raises `Refused`.

    As with Slurm, a number of tasks per node counts only where no number of tasks is known.
    """
    chosen = _candidates(options, places)
    per_node = _number(options, "ntasks-per-node")
    if per_node is None:
        per_node = _of_environment(environment, "SLURM_NTASKS_PER_NODE")
    tasks = _number(options, "ntasks")
    if tasks is None:
        # The job's own number stands against --nodes and --ntasks-per-node too (tried on 22.05).
        tasks = _of_environment(environment, "SLURM_NTASKS")
    nodes = _nodes(options, len(chosen), len(places))
    if nodes is None:
        # Fewer tasks than nodes leave nodes out.
        nodes = len(chosen) if tasks is None else min(len(chosen), tasks)
    if tasks is None:
        tasks = nodes * (per_node or 1)
    elif tasks < nodes:
        nodes = tasks
    if not 0 < tasks <= TASKS_MAX:
        raise Refused(f"a step has 1 to {TASKS_MAX} tasks, not {tasks}.")
    counts = tasks_by_node(nodes, tasks)
    # The tasks follow the order of the job's nodes, whichever were wanted first.
    used = sorted(chosen[:nodes], key=places.index)
    is_cyclic = options.get("distribution", "").lower().split(":")[0] == "cyclic"
    gpus = _gpus(options, environment, nodes)
    return Step(used, counts, gpus, is_cyclic=is_cyclic)


def _candidates(options: Mapping[str, str], places: Sequence[Place]) -> list[Place]:
    """Return the nodes of the job on which the step may run, the wanted ones first."""
    names = [place.node for place in places]
    left = list(places)
    if "relative" in options:
        first = _number(options, "relative") or 0
        if first >= len(places):
            raise Refused(f"--relative={first}: the job has {len(places)} nodes, counted from 0.")
        left = left[first:]
    excluded = _hosts(options, "exclude", names)
    left = [place for place in left if place.node not in excluded]
    wanted = _hosts(options, "nodelist", names)
    if not left:
        raise Refused("no node of the job is left for the step.")
    if not wanted:
        return left
    named = [place for place in left if place.node in wanted]
    if "nodes" not in options and "ntasks" not in options:
        return named
    return [*named, *(place for place in left if place.node not in wanted)]


def _hosts(options: Mapping[str, str], name: str, known: Sequence[str]) -> list[str]:
    if name not in options:
        return []
    try:
        hosts = list(expand(options[name]))
    except ValueError as error:
        raise Refused(f"--{name}: {error}.") from None
    for host in hosts:
        if host not in known:
            raise Refused(f"--{name}: {host} is not a node of this job.")
    return hosts


def _nodes(options: Mapping[str, str], free: int, of_job: int) -> int | None:
    if "nodes" not in options:
        return None
    least = options["nodes"].partition("-")[0]
    nodes = int(least) if least.isdecimal() else 0
    if nodes < 1:
        raise Refused(f"--nodes={options['nodes']} is not a number of nodes.")
    if nodes > free:
        raise Refused(
            f"the step asks for {nodes} nodes, and {free} of the job's {of_job} are left."
        )
    return nodes


def _gpus(options: Mapping[str, str], environment: Mapping[str, str], nodes: int) -> Gpus:
    per_task = _count(options, "gpus-per-task")
    if per_task is None and not {"gres", "gpus", "gpus-per-node"} & set(options):
        per_task = _of_environment(environment, "SLURM_GPUS_PER_TASK")
    per_node = _count(options, "gpus-per-node")
    if per_node is None and "gres" in options:
        per_node = _of_gres(options["gres"])
    total = _count(options, "gpus")
    if per_node is None and total is not None:
        per_node = -(-total // nodes)
    return Gpus(per_node=per_node, per_task=per_task)


def _of_gres(text: str) -> int | None:
    """Return the GPUs per node in a --gres value; None where it names none at all."""
    if text.lower() == "none":
        return 0
    for one in text.split(","):
        match = _GRES.fullmatch(one.split("(")[0])
        if match:
            return int(match[1] or 1)
    return None


def _count(options: Mapping[str, str], name: str) -> int | None:
    """Return the number in COUNT or TYPE:COUNT."""
    if name not in options:
        return None
    match = _COUNT.fullmatch(options[name])
    if match is None:
        raise Refused(f"--{name}={options[name]} is not a number of GPUs.")
    return int(match[1])


def _number(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    if not options[name].isdecimal():
        raise Refused(f"--{name}={options[name]} is not a number.")
    return int(options[name])


def _of_environment(environment: Mapping[str, str], name: str) -> int | None:
    """Return the number that the job set, or None."""
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else None
