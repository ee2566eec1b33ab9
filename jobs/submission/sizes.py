"""The size of a job, in GPUs or cores and nodes: read from a request, laid out on a fleet."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from jobs.submission.array_text import ArrayShape
from jobs.submission.fitting import Fleet, lay_out, lay_out_elastic
from jobs.submission.job_members import JobMembers
from jobs.submission.problems import Problems
from jobs.submission.sbatch_notes import Note, Verdict
from primitives.units import MGPU_PER_GPU, DeviceKind, mgpu_of


class Size(NamedTuple):
    """The requested size: exactly one of `mgpu` and `mgpu_per_node` is set.

    The exceptions are a request for whole nodes (`is_whole`), and one that is refused. `mgpu` is
    the total, in `node_count` equal parts, or laid out by `laid_out` if that is None.
    `mgpu_per_node` is the amount on each of `node_count` nodes (None: 1). An elastic job gives its
    minimum as `mgpu_min` if `laid_out` chooses the nodes, else as `node_count_min`. `device` is the
    kind that is counted: cores, from `cpus_per_node`, where the request asks for no GPUs.
    """

    mgpu: int | None = None
    mgpu_per_node: int | None = None
    node_count: int | None = None
    mgpu_min: int | None = None
    node_count_min: int | None = None
    device: DeviceKind = DeviceKind.GPU
    is_whole: bool = False


def read_size(
    members: JobMembers,
    given: Collection[str],
    problems: Problems,
    *,
    takes_whole_nodes: bool = False,
) -> Size:
    """Return the size in the members `gpus`, `gpus_per_node`, `nodes`, `gpus_min` and `nodes_min`.

    For a job without GPUs the members are `cpus_per_node`, `nodes` and `nodes_min`. `given` names
    the members of the body; one with an error is None in `members`. With `takes_whole_nodes` a
    request without any size takes all GPUs of its nodes.
    """
    nodes = members.nodes
    sizes = {"gpus", "gpus_per_node", "cpus_per_node", "gpus_min"}
    if takes_whole_nodes and sizes.isdisjoint(given):
        size = Size(node_count=nodes, is_whole=True)
        return _from_nodes_min(members, given, problems, size) if "nodes_min" in given else size
    if "gpus" in given and "gpus_per_node" in given:
        problems.fail("gpus", "give gpus, or gpus_per_node and nodes, not both")
        return Size()
    if "gpus" not in given and "gpus_per_node" not in given:
        return _cores(members, given, problems)
    total, per_node = _mgpu(members.gpus), _mgpu(members.gpus_per_node)
    if per_node is not None and (nodes or 1) > 1 and per_node % MGPU_PER_GPU:
        problems.fail("gpus_per_node", "must be whole GPUs on more than one node")
    if total is not None and nodes is not None and total % (nodes * MGPU_PER_GPU) and nodes > 1:
        problems.fail("gpus", f"cannot be split into {nodes:,} equal parts of whole GPUs")
        return Size()
    size = Size(total, per_node, nodes)
    if "gpus_min" in given:
        return _from_gpus_min(members, given, problems, size)
    if "nodes_min" in given:
        return _from_nodes_min(members, given, problems, size)
    return size


def _mgpu(gpus: float | None) -> int | None:
    return None if gpus is None else mgpu_of(Decimal(str(gpus)))


def _cores(members: JobMembers, given: Collection[str], problems: Problems) -> Size:
    """Return the size of a job that asks for no GPUs."""
    if "cpus_per_node" not in given:
        told = "is required (or gpus_per_node and nodes; in a pool of CPU cores cpus_per_node)"
        problems.fail("gpus", told, "required")
        return Size()
    if "gpus_min" in given:
        problems.fail("gpus_min", "goes with gpus; beside cpus_per_node and nodes say nodes_min")
        return Size()
    if members.cpus_per_node is None:
        return Size()
    mgpu = members.cpus_per_node * MGPU_PER_GPU
    size = Size(None, mgpu, members.nodes, device=DeviceKind.CPU)
    return _from_nodes_min(members, given, problems, size) if "nodes_min" in given else size


def _from_gpus_min(
    members: JobMembers, given: Collection[str], problems: Problems, size: Size
) -> Size:
    """Return `size` with the minimum `gpus_min`; unchanged if that equals the total."""
    least, most = _mgpu(members.gpus_min), size.mgpu
    if "nodes_min" in given:
        problems.fail("nodes_min", "give gpus_min or nodes_min, not both")
    elif "gpus" not in given:
        problems.fail("gpus_min", "goes with gpus; beside gpus_per_node and nodes say nodes_min")
    elif least is None or most is None or least == most:
        return size
    elif least > most:
        problems.fail("gpus_min", "must be at most gpus", "out_of_range")
    elif least % MGPU_PER_GPU or most % MGPU_PER_GPU:
        problems.fail("gpus_min", "and gpus must be whole GPUs")
    elif size.node_count is None:
        return size._replace(mgpu_min=least)
    elif least % (part := most // size.node_count):
        each = part // MGPU_PER_GPU
        problems.fail("gpus_min", f"must be a multiple of {each:,}, as each node has")
    else:
        return size._replace(node_count_min=least // part)
    return size


def _from_nodes_min(
    members: JobMembers, given: Collection[str], problems: Problems, size: Size
) -> Size:
    """Return `size` with the minimum `nodes_min`; unchanged if that equals `nodes`."""
    least = members.nodes_min
    if least is None or size.node_count is None:
        if "nodes" not in given:
            problems.fail("nodes_min", "goes with nodes, which is the most")
        return size
    if least > size.node_count:
        problems.fail("nodes_min", "must be at most nodes", "out_of_range")
    return size if least == size.node_count else size._replace(node_count_min=least)


class LaidOut(NamedTuple):
    """A layout: `mgpu_per_node` on `node_count` to `node_count_max` nodes."""

    mgpu_per_node: int
    node_count: int
    node_count_max: int


def laid_out(size: Size, fleet: Fleet, clusters: frozenset[str] | None) -> LaidOut:
    """Return `size` laid out on the nodes of `clusters` (None: all).

    A size without a possible layout is put on one node. That node cannot hold it, so the refusal
    names the total.
    """
    if size.is_whole:
        size = size._replace(mgpu_per_node=fleet.largest_node_mgpu(clusters) or MGPU_PER_GPU)
    if size.mgpu_per_node is not None:
        nodes = size.node_count or 1
        return LaidOut(size.mgpu_per_node, size.node_count_min or nodes, nodes)
    assert size.mgpu is not None
    if size.node_count is not None:
        nodes = size.node_count
        return LaidOut(size.mgpu // nodes, size.node_count_min or nodes, nodes)
    largest_mgpu = fleet.largest_node_mgpu(clusters)
    nodes_with = partial(fleet.nodes_with, clusters=clusters)
    if size.mgpu_min is not None:
        elastic = lay_out_elastic(size.mgpu_min, size.mgpu, largest_mgpu, nodes_with)
        return LaidOut(*(elastic or (size.mgpu, 1, 1)))
    mgpu, nodes = lay_out(size.mgpu, largest_mgpu, nodes_with) or (size.mgpu, 1)
    return LaidOut(mgpu, nodes, nodes)


def notes_on(size: Size, chosen: LaidOut) -> tuple[Note, ...]:
    """Return a note if the portal chose the nodes.

    The user should know, because a total that divides badly becomes many small ranks.
    """
    if size.mgpu is None or size.node_count is not None or chosen.node_count_max == 1:
        return ()
    each = f"{DeviceKind.GPU.text(chosen.mgpu_per_node)} each"
    if chosen.node_count < chosen.node_count_max:
        told = (
            f"This job takes {_nodes(chosen.node_count)} at least and "
            f"{_nodes(chosen.node_count_max)} at most with {each}"
        )
    else:
        told = (
            f"No node has {DeviceKind.GPU.text(size.mgpu)}, so this job takes"
            f" {_nodes(chosen.node_count)} with "
            f"{each}"
        )
    detail = f"{told}. To choose the layout, ask for nodes and GPUs per node instead."
    return (Note(0, "", Verdict.UNDERSTOOD, detail),)


def notes_on_array(array: ArrayShape | None) -> tuple[Note, ...]:
    """Return a note if the array has fewer tasks than written indices."""
    if array is None or array.repeated is None:
        return ()
    tasks = "1 task" if array.size == 1 else f"{array.size:,} tasks"
    detail = f"The index {array.repeated} is named twice and counts once: the array has {tasks}."
    return (Note(0, "", Verdict.UNDERSTOOD, detail),)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"
