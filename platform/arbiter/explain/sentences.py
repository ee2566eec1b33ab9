"""A decision in one or two sentences for a person, with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from arbiter.api.plan import Code, Waiting
from arbiter.api.snapshot import QueuedJob
from arbiter.explain.credit_order import credits_text
from arbiter.explain.phrases import (
    cpu_and_memory_text,
    duration_text,
    features_text,
    level_text,
    missing_features,
    percent_text,
    too_far_apart,
    too_few_large_enough,
)
from primitives.clock import from_epoch
from primitives.units import DeviceKind, gpus_text

#: Codes for which the number of jobs ahead is useful.
_IN_ORDER = frozenset(
    (
        Code.WAITING_FOR_FREE_GPUS,
        Code.WAITING_FOR_GUARANTEE,
        Code.BEHIND_CREDITS,
        Code.TOPOLOGY_FRAGMENTED,
        Code.BORROW_LIMIT_REACHED,
        Code.PARENT_LIMIT_REACHED,
    )
)


class Names(dict[str, str]):
    """Display names of tree nodes, clusters and pools, by id.

    `of_cores` are the pools whose devices are CPU cores.
    """

    def __init__(self, names: Mapping[str, str], of_cores: Collection[str] = ()) -> None:
        super().__init__(names)
        self.of_cores = frozenset(of_cores)


def device_of(pool: str, names: Mapping[str, str]) -> DeviceKind:
    """Return the type of the devices of a pool; GPUs unless `names` says otherwise."""
    is_cores = isinstance(names, Names) and pool in names.of_cores
    return DeviceKind.CPU if is_cores else DeviceKind.GPU


def sentence(waiting: Waiting, job: QueuedJob, names: Mapping[str, str]) -> str:
    """Return why `job` waits, as text.

    `names` maps ids of tree nodes, clusters and pools to display names. Devices are GPUs unless a
    `Names` object says otherwise.

    A node that is missing in `names` (the reader may not see it) is not named.
    """
    text = _WRITERS[waiting.code](waiting, job, _Terms(names, device_of(job.pool, names)))
    if waiting.code in _IN_ORDER and waiting.jobs_ahead:
        ahead = "1 job is" if waiting.jobs_ahead == 1 else f"{waiting.jobs_ahead:,} jobs are"
        text = f"{text} {ahead} ahead of it."
    return text


@dataclass(frozen=True, slots=True)
class _Terms:
    """Display names by id, and the devices of the job's pool."""

    names: Mapping[str, str]
    device: DeviceKind

    def count(self, mgpu: int) -> str:
        """Return this many devices as text."""
        return self.device.text(mgpu)

    def these(self, mgpu: int) -> str:
        """Return the requested devices as text."""
        one = f"this {self.device.plural[:-1]}"
        return one if mgpu == 1_000 else f"these {self.count(mgpu)}"


def _are(mgpu: int) -> str:
    return "is" if mgpu == 1_000 else "are"


def _need(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    """Return the job's request: "8 GPUs", or "16 GPUs (2 nodes with 8 each)"."""
    need = terms.count(waiting.numbers.get("need_mgpu", job.mgpu))
    if job.node_count_max is not None and job.node_count_max > job.node_count:
        need = f"at least {need}"
    if job.node_count > 1:
        need += f" ({job.node_count} nodes with {gpus_text(job.mgpu_per_node)} each)"
        if job.topology is not None and job.topology.is_required:
            need += f" in one {level_text(job.topology.level)}"
    return need + _on_such_nodes(job)


def _cpu_and_memory(waiting: Waiting) -> str:
    """Return the CPU and memory that the job needs on each node."""
    numbers = waiting.numbers
    return cpu_and_memory_text(numbers["cpu_milli_per_node"], numbers["memory_mib_per_node"])


def _on_such_nodes(job: QueuedJob) -> str:
    return f" on nodes with {features_text(job.features)}" if job.features else ""


def _never_fits(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    having = waiting.numbers.get("nodes_with_features")
    if having is not None and having < job.node_count:
        where = f"of pool {terms.names.get(job.pool, job.pool)}"
        if job.clusters is not None:
            where += f" on {_clusters(job, terms)}"
        text = missing_features(
            job.features or (), having=having, needed=job.node_count, where=where
        )
        return f"This job will never start as it is: {text}."
    together = waiting.numbers.get("nodes_in_one_domain")
    if together is not None and together < job.node_count and job.topology is not None:
        where = f"of pool {terms.names.get(job.pool, job.pool)}"
        if job.clusters is not None:
            where += f" on {_clusters(job, terms)}"
        text = too_far_apart(
            job.topology.level,
            nodes=job.node_count,
            mgpu=job.mgpu_per_node,
            together=together,
            where=where,
            device=terms.device,
        )
        return f"This job will never start as it is: {text}."
    large_enough = waiting.numbers.get("nodes_large_enough")
    if large_enough is not None:
        where = f"of pool {terms.names.get(job.pool, job.pool)}"
        if job.clusters is not None:
            where += f" on {_clusters(job, terms)}"
        text = too_few_large_enough(
            mgpu=job.mgpu_per_node,
            cpu_and_memory=_cpu_and_memory(waiting),
            having=large_enough,
            needed=job.node_count,
            where=where,
            device=terms.device,
        )
        return f"This job will never start as it is: {text}."
    most = waiting.numbers.get("could_ever_mgpu", 0)
    asks = f"This job asks for {_need(waiting, job, terms)} and will never start as it is:"
    if most <= 0:
        return f"{asks} your team can get no such {terms.device.plural} in this pool."
    return f"{asks} the most your team can ever get for such a job is {terms.count(most)}."


def _waiting_for_guarantee(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    text = f"Your team is entitled to {terms.these(numbers['need_mgpu'])}"
    if "limit_mgpu" in numbers:
        return (
            f"{text}, but {_node(waiting, terms)} uses {_held_text(numbers)} of the"
            f" {terms.count(numbers['limit_mgpu'])} that it may use, and no jobs there can be"
            " preempted now."
        )
    if "capacity_mgpu" in numbers:
        has = terms.count(numbers["capacity_mgpu"])
        text += f", but only {has} of this pool work, and more than that are guaranteed"
    free = numbers["largest_free_on_a_cluster_mgpu"]
    return (
        f"{text}. {gpus_text(free)} {_are(free)} free on one cluster{_on_such_nodes(job)}, and"
        " no jobs can be preempted now to free the rest."
    )


def _limit_reached(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    who = "Your team" if waiting.node == job.team else _node(waiting, terms)
    return (
        f"{who} may use at most {terms.count(numbers['limit_mgpu'])} and uses"
        f" {_held_text(numbers)}; this job needs {_need(waiting, job, terms)}."
    )


def _held_text(numbers: Mapping[str, int]) -> str:
    held = gpus_text(numbers["held_mgpu"])
    if leaving := numbers.get("leaving_mgpu"):
        held += f" ({gpus_text(leaving)} in jobs that are being stopped)"
    return held


def _unlimited(waiting: Waiting, terms: _Terms) -> str:
    """Return that jobs without a time limit have to end first; "" if none has to."""
    jobs = waiting.numbers.get("unlimited_jobs", 0)
    if not jobs:
        return ""
    held = terms.count(waiting.numbers["unlimited_mgpu"])
    if jobs == 1:
        told = f"1 job without a time limit holds {held}; it has"
    else:
        told = f"{jobs:,} jobs without a time limit hold {held}; one of them has"
    return f" {told} to end first, so no latest start is known."


def _waiting_for_free_gpus(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    return _free_gpus(waiting, job, terms) + _unlimited(waiting, terms)


def _free_gpus(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    free, largest = numbers["free_mgpu"], numbers["largest_free_on_a_cluster_mgpu"]
    if largest >= numbers["need_mgpu"]:
        available = max(0, numbers["available_by_quota_mgpu"])
        return (
            f"It needs {_need(waiting, job, terms)}. {gpus_text(free)} {_are(free)} free but"
            f" kept for other teams; quota leaves {gpus_text(available)} for yours."
        )
    if free >= numbers["need_mgpu"]:
        return (
            f"It needs {_need(waiting, job, terms)} on one cluster; {gpus_text(free)}"
            f" {_are(free)} free in all, but at most {gpus_text(largest)} on one."
        )
    return f"It needs {_need(waiting, job, terms)}; {gpus_text(free)} {_are(free)} free."


def _waiting_for_reclaim(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    need, here = numbers["need_mgpu"], numbers["earmarked_mgpu"]
    own, victims = numbers.get("victims_of_team", 0), numbers.get("victims", 0)
    if here >= need:
        return (
            f"{terms.count(need)} {_are(need)} free and kept for it. It starts once the jobs that"
            f" are being stopped have freed quota{_by_when(numbers)}"
        )
    if own and own == victims:
        by = "a job" if own == 1 else f"{own:,} jobs"
        text = f"{terms.count(need)} {_are(need)} being freed by {by} of your team in a lower class"
    # A reason that was stored by an older version has no such number.
    elif numbers.get("within_guarantee_mgpu", 0) >= need:
        they_are = "It is" if need == 1_000 else "They are"
        text = (
            f"Your team is entitled to {terms.these(need)}."
            f" {they_are} lent out and {_are(need)} being reclaimed"
        )
    else:
        text = f"{terms.count(need)} {_are(need)} being reclaimed for it"
    text += _by_when(numbers)
    if here:
        text += f" {terms.count(here)} {_are(here)} already available."
    return text


def _by_when(numbers: Mapping[str, int]) -> str:
    if overdue_s := numbers.get("overdue_s"):
        more = duration_text(numbers["given_up_in_s"])
        return (
            f". That was due {duration_text(overdue_s)} ago. After another {more} the job gives"
            " up its claim and waits as before."
        )
    return f", within {duration_text(numbers['grace_left_s'])}."


def _behind_higher_priority(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    return (
        f"It needs {_need(waiting, job, terms)}, but another job of your team comes first and"
        " waits itself."
    )


def _behind_credits(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    ahead = None if waiting.node is None else terms.names.get(waiting.node)
    if taken_mgpu := numbers.get("taken_mgpu"):
        text = (
            f"It needs {_need(waiting, job, terms)}. This cycle gave {terms.count(taken_mgpu)}"
            " beyond guarantees to teams of equal rank with more credits or less recent use."
        )
    else:
        text = _waiting_for_free_gpus(waiting, job, terms)
    return f"{text} {credits_text(numbers, ahead)}"


def _behind_fair_share(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    factor = waiting.numbers.get("use_factor_percent")
    counts = "" if factor is None else f" {factor} % of the use of its class counts."
    return _by_fair_share(waiting, job, terms) + counts


def _by_fair_share(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    if "taken_mgpu" in numbers:
        who = "Your team" if waiting.node == job.team else _node(waiting, terms)
        return (
            f"It needs {_need(waiting, job, terms)}. This cycle gave"
            f" {terms.count(numbers['taken_mgpu'])} beyond guarantees to teams that used less of"
            " their share lately."
            f" {who} has {percent_text(numbers['weight_permille'])} of the weight and"
            f" {percent_text(numbers['used_permille'])} of the recent use of its level."
        )
    if "starts_max" not in numbers:
        return (
            f"It needs {_need(waiting, job, terms)}. This cycle gave the spare"
            f" {terms.device.plural} to others that used less of their share lately."
        )
    ahead = waiting.jobs_ahead
    order = "it comes first"
    if ahead:
        order = f"{ahead:,} waiting job{' comes' if ahead == 1 else 's come'} before it"
    return f"It could start, but this cycle reached its limit of starts; {order} in the next."


def _reserved_for_larger_job(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    text = (
        f"It needs {_need(waiting, job, terms)} and would delay a job that comes first."
        f" {terms.count(numbers['reserved_mgpu'])} {_are(numbers['reserved_mgpu'])} reserved for"
        f" that job from {_moment(numbers['reserved_start_at'])}."
    )
    if job.time_limit_s is None:
        return f"{text} With a time limit that ends before then, it could start sooner."
    return f"{text} With a shorter time limit that ends before then, it could start sooner."


def _moment(epoch_s: int) -> str:
    return from_epoch(epoch_s).strftime("%Y-%m-%d %H:%M UTC")


def _topology_fragmented(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    count, fitting = numbers["nodes_needed"], numbers["nodes_fitting"]
    by_gpus = numbers.get("nodes_fitting_by_gpus", 0)
    free = numbers["largest_free_on_a_cluster_mgpu"]
    if fitting < count <= by_gpus:
        nodes, each = ("1 node", "") if count == 1 else (f"{count} nodes of one cluster", " each")
        has = "none has" if fitting == 0 else "1 has" if fitting == 1 else f"at most {fitting} have"
        have = "1 has" if by_gpus == 1 else f"{by_gpus:,} have"
        wants = f"{terms.count(numbers['mgpu_per_node'])} and {_cpu_and_memory(waiting)}"
        return (
            f"{terms.count(free)} {_are(free)} free on one cluster, but without enough CPU or"
            f" memory: it needs {nodes} with {wants} free{each}, and {has}; {have} the"
            f" {terms.device.plural} free."
        )
    domain = "cluster"
    if job.topology is not None and "nodes_in_one_domain" in numbers:
        domain, fitting = level_text(job.topology.level), numbers["nodes_in_one_domain"]
    nodes = "1 node" if count == 1 else f"{count} nodes of one {domain}"
    if job.features:
        nodes += f" with {features_text(job.features)} and"
    else:
        nodes += " with"
    each = "" if count == 1 else " each"
    has = "none has" if fitting == 0 else "1 has" if fitting == 1 else f"at most {fitting} have"
    if domain != "cluster" and fitting:
        has = f"none has more than {fitting}"
    return (
        f"{terms.count(free)} {_are(free)} free on one cluster, but scattered:"
        f" it needs {nodes} {gpus_text(numbers['mgpu_per_node'])} free{each}, and {has}."
        f"{_unlimited(waiting, terms)}"
    )


def _class_cap_reached(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    numbers = waiting.numbers
    return (
        f"In this priority class your team may use {terms.count(numbers['class_cap_mgpu'])} at"
        f" once and uses {gpus_text(numbers['class_in_use_mgpu'])}; this job needs"
        f" {_need(waiting, job, terms)}."
    )


def _cluster_unavailable(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    if job.clusters is None:
        return f"No cluster with such {terms.device.plural} accepts jobs now."
    if len(job.clusters) != 1 and job.has_image:
        return (
            f"No cluster with such {terms.device.plural} that runs container images and on which"
            " you have a user accepts jobs now."
        )
    if len(job.clusters) != 1:
        return (
            f"No cluster with such {terms.device.plural} on which you have a user accepts jobs now."
        )
    (cluster,) = job.clusters
    named = terms.names.get(cluster)
    which = "The cluster it is pinned to" if named is None else f"{named}, where it must run,"
    return f"{which} does not accept jobs now."


def _maintenance(waiting: Waiting, job: QueuedJob, terms: _Terms) -> str:
    need, numbers = _need(waiting, job, terms), waiting.numbers
    resume = f"Starts resume at {_moment(numbers['maintenance_end_at'])}."
    begins_at, nodes = (numbers.get(f"maintenance_{name}") for name in ("start_at", "nodes"))
    where, elsewhere = "the cluster", "another cluster"
    if nodes is not None:
        where, elsewhere = "1 node" if nodes == 1 else f"{nodes} nodes", "other nodes"
    if begins_at is None:
        if nodes is not None:
            is_or_are = "is" if nodes == 1 else "are"
            return f"It needs {need}, and {where} {is_or_are} under maintenance. {resume}"
        return f"It needs {need} on a cluster under maintenance. {resume} Another cluster may help."
    begins = _moment(begins_at)
    which = "a" if job.time_limit_s is None else "a shorter"
    return (
        f"It needs {need} and could still run when the maintenance of {where} begins at"
        f" {begins}. {resume} With {which} time limit that ends before {begins}, or on {elsewhere},"
        " it could start sooner."
    )


def _clusters(job: QueuedJob, terms: _Terms) -> str:
    """Return the clusters that may run the job, if not all may, as text."""
    assert job.clusters is not None
    named = {terms.names.get(cluster) for cluster in job.clusters}
    (only,) = named if len(named) == 1 else (None,)
    return only or "the clusters that may run it"


def _node(waiting: Waiting, terms: _Terms) -> str:
    named = None if waiting.node is None else terms.names.get(waiting.node)
    return "A node above your team" if named is None else named


_WRITERS: Mapping[Code, Callable[[Waiting, QueuedJob, _Terms], str]] = {
    Code.NEVER_FITS: _never_fits,
    Code.WAITING_FOR_GUARANTEE: _waiting_for_guarantee,
    Code.BORROW_LIMIT_REACHED: _limit_reached,
    Code.PARENT_LIMIT_REACHED: _limit_reached,
    Code.WAITING_FOR_FREE_GPUS: _waiting_for_free_gpus,
    Code.WAITING_FOR_RECLAIM: _waiting_for_reclaim,
    Code.BEHIND_HIGHER_PRIORITY: _behind_higher_priority,
    Code.BEHIND_CREDITS: _behind_credits,
    Code.BEHIND_FAIR_SHARE: _behind_fair_share,
    Code.RESERVED_FOR_LARGER_JOB: _reserved_for_larger_job,
    Code.TOPOLOGY_FRAGMENTED: _topology_fragmented,
    Code.CLASS_CAP_REACHED: _class_cap_reached,
    Code.CLUSTER_UNAVAILABLE: _cluster_unavailable,
    Code.MAINTENANCE: _maintenance,
}
