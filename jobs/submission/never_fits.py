"""The refusal of a request that can never run: the reason, and what would fit."""

from __future__ import annotations

from arbiter.api.plan import Waiting
from arbiter.explain.phrases import (
    features_text,
    missing_features,
    too_far_apart,
    too_few_large_enough,
)
from jobs.errors import NeverFits
from jobs.submission.resolved_requests import ResolvedRequest, size_pointer
from primitives.errors import FieldError
from primitives.units import MGPU_PER_GPU, gpus_text


def never_fits(resolved: ResolvedRequest, never: Waiting) -> NeverFits:
    """Return the error for a request that can never run, with what would fit."""
    detail, numbers = never_sentence(resolved, never)
    pointer = size_pointer(resolved.request)
    if _lacks_features(resolved, never):
        pointer = "/features"
    elif "nodes_large_enough" in never.numbers:
        wants_cpus = resolved.request.cpus_per_node is not None
        pointer = "/cpus_per_node" if wants_cpus else "/memory_mib_per_node"
    elif _is_too_far_apart(resolved, never):
        pointer = "/required_topology"
    return NeverFits(detail, errors=[FieldError(pointer, detail, "never_fits")], numbers=numbers)


def _lacks_features(resolved: ResolvedRequest, never: Waiting) -> bool:
    """Return whether too few nodes have the features, whatever their size."""
    having = never.numbers.get("nodes_with_features")
    return having is not None and having < resolved.node_count


def _is_too_far_apart(resolved: ResolvedRequest, never: Waiting) -> bool:
    """Return whether there are enough nodes, but not within one domain of the required level."""
    together = never.numbers.get("nodes_in_one_domain")
    return (
        together is not None
        and together < resolved.node_count
        and resolved.node_count
        <= resolved.fleet.nodes_with(resolved.mgpu_per_node, resolved.clusters)
    )


def never_sentence(resolved: ResolvedRequest, never: Waiting) -> tuple[str, dict[str, int]]:
    """Return why a request can never run and what would fit, and the numbers behind it."""
    pool, fleet, clusters = resolved.pool.name, resolved.fleet, resolved.clusters
    count, device = resolved.pool.kind.text, resolved.pool.kind
    features = resolved.request.features
    fitting = fleet.nodes_with(resolved.mgpu_per_node, clusters)
    cap_mgpu = resolved.priority_class.team_cap_mgpu
    numbers = {
        "need_mgpu": resolved.mgpu,
        "mgpu_per_node": resolved.mgpu_per_node,
        "nodes_needed": resolved.node_count,
        "nodes_fitting": fitting,
        "largest_node_mgpu": fleet.largest_node_mgpu(clusters) or 0,
        "could_ever_mgpu": never.numbers.get("could_ever_mgpu", 0),
    }
    asked = f"{count(resolved.mgpu)} of {pool} can never run"
    if _lacks_features(resolved, never):
        having = numbers["nodes_with_features"] = never.numbers["nodes_with_features"]
        where = f"of pool {pool}"
        if resolved.cluster is not None:
            where += f" on {resolved.cluster}"
        elif resolved.request.image is not None:
            where += " on clusters that run container images"
        detail = missing_features(features, having=having, needed=resolved.node_count, where=where)
        return f"{asked}: {detail}.", numbers
    if "nodes_large_enough" in never.numbers:
        having = numbers["nodes_large_enough"] = never.numbers["nodes_large_enough"]
        numbers["cpu_milli_per_node"] = resolved.request.cpu_milli_per_node or 0
        numbers["memory_mib_per_node"] = resolved.request.memory_mib_per_node or 0
        detail = too_few_large_enough(
            mgpu=resolved.mgpu_per_node,
            cpu_and_memory=resolved.request.cpu_and_memory,
            having=having,
            needed=resolved.node_count,
            device=device,
            where=f"of pool {pool}"
            + ("" if resolved.cluster is None else f" on {resolved.cluster}"),
        )
        return f"{asked}: {detail}.", numbers
    total_mgpu = fleet.total_mgpu()
    if total_mgpu is not None and resolved.mgpu > total_mgpu:
        were = "was" if resolved.mgpu == MGPU_PER_GPU else "were"
        return (
            f"{asked}: the pool {pool} has {count(total_mgpu)} in all; "
            f"{gpus_text(resolved.mgpu)} {were} asked for.",
            numbers,
        )
    if fitting < resolved.node_count:
        where = "no cluster" if resolved.request.image is None else "no cluster that runs images"
        where = f"{where} has" if resolved.cluster is None else f"{resolved.cluster} does not have"
        with_features = f"{features_text(features)} and " if features else ""
        most = (
            f", and at most {_nodes(fitting)} of one cluster can give "
            f"{gpus_text(resolved.mgpu_per_node)}"
            if fitting
            else ""
        )
        return (
            f"{asked}: {where} {_nodes(resolved.node_count)} with {with_features}"
            f"{count(resolved.mgpu_per_node)} each. The largest node has "
            f"{count(numbers['largest_node_mgpu'])}{most}.",
            numbers,
        )
    if _is_too_far_apart(resolved, never):
        assert resolved.request.required_topology is not None
        together = numbers["nodes_in_one_domain"] = never.numbers["nodes_in_one_domain"]
        detail = too_far_apart(
            resolved.request.required_topology,
            nodes=resolved.node_count,
            mgpu=resolved.mgpu_per_node,
            together=together,
            device=device,
            where="of the pool" if resolved.cluster is None else f"on {resolved.cluster}",
        )
        return f"{asked}: {detail}.", numbers
    if cap_mgpu is not None and resolved.mgpu > cap_mgpu:
        return (
            f"{asked} in the class {resolved.priority_class.name}: it lets a team have at most "
            f"{count(cap_mgpu)} at once.",
            numbers,
        )
    return (
        f"{asked} for {resolved.team.display_path}: its quota, with all that it may borrow, is at "
        f"most {count(numbers['could_ever_mgpu'])} even when everything is idle. Ask for "
        "at most that, or have the quota raised.",
        numbers,
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"
