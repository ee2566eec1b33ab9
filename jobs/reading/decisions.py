"""Decisions of recorded cycles with their reasons, for people.

Everybody who may see a job may read the decisions about it. Other jobs are limited to what the
reader may see. Whole cycles and their replays (`jobs.whatif.replaying`) are for platform
administrators, as they name jobs of every organization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from arbiter.api.decisions import Kind, Right
from arbiter.api.plan import Start
from arbiter.api.snapshot import QueuedJob
from arbiter.explain.phrases import duration_text
from arbiter.explain.sentences import device_of
from arbiter.replay.replay import Decided, Difference, Fate, NodeUse, Replayed, Stopped
from jobs.access import visible_jobs
from jobs.arbitration.recording import unpack
from jobs.arbitration.snapshots import display_names
from jobs.models import Cycle, Job
from jobs.queue.reason_documents import iso
from jobs.reading.decision_list import named_job
from primitives.clock import from_epoch
from primitives.errors import NotFound
from primitives.units import MGPU_PER_GPU, DeviceKind, gpus_text
from quotas.models import PriorityClass
from tenants.access import Actor, require_platform_admin
from tenants.roles import Permission

#: Maximum number of cycles in one answer about a job. Each record is unpacked whole.
CYCLES_MAX = 20
#: Maximum number of differences in one answer.
DIFFERENCES_MAX = 500


def list_cycles(*, actor: Actor, since: datetime | None, until: datetime | None) -> QuerySet[Cycle]:
    """Return recorded cycles in [since, until), without their bodies. Raises Forbidden."""
    require_platform_admin(actor)
    return _between(since, until)


def _between(since: datetime | None, until: datetime | None) -> QuerySet[Cycle]:
    cycles = Cycle.objects.defer("body")
    if since is not None:
        cycles = cycles.filter(decided_at__gte=since)
    if until is not None:
        cycles = cycles.filter(decided_at__lt=until)
    return cycles


def decisions_about(
    job_id: UUID, *, actor: Actor, since: datetime | None, until: datetime | None, limit: int
) -> list[dict[str, Any]]:
    """Return the decisions in [since, until) about a visible job, newest first.

    `limit` is the number of cycles. Raises NotFound for a job that is absent or not visible, and
    Conflict for an unreadable record.
    """
    if not visible_jobs(actor).filter(pk=job_id).exists():
        raise NotFound("It does not exist, or you may not see it.")
    about = (
        Q(started__contains=[job_id])
        | Q(claimed__contains=[job_id])
        | Q(stopped__contains=[job_id])
        | Q(dropped__contains=[job_id])
    )
    found = _between(since, until).filter(about).order_by("-decided_at", "-pk")
    shown: list[dict[str, Any]] = []
    for cycle in found[: min(limit, CYCLES_MAX)]:
        replayed = Replayed(unpack(bytes(cycle.body)))
        decided = replayed.decided_about(str(job_id))
        writer = DecisionWriter(replayed, cycle, decided, actor)
        shown += [writer.describe(one) for one in decided]
    return shown


def cycle_body(cycle: Cycle) -> dict[str, Any]:
    """Return a cycle as lists show it."""
    return {
        "id": str(cycle.pk),
        "decided_at": iso(cycle.decided_at),
        "epoch": cycle.epoch,
        "version": cycle.version,
        "started": len(cycle.started),
        "claimed": len(cycle.claimed),
        "stopped": len(cycle.stopped),
        "claims_dropped": len(cycle.dropped),
        "bytes": cycle.size,
    }


class DecisionWriter:
    """Describes the decisions of one cycle to one actor."""

    def __init__(
        self,
        replayed: Replayed,
        cycle: Cycle,
        decided: Sequence[Decided],
        actor: Actor,
        found: Sequence[Difference] = (),
    ) -> None:
        self._replayed = replayed
        self._cycle = cycle
        self._actor = actor
        self._names = display_names()
        self._classes = {
            str(pk): name for pk, name in PriorityClass.objects.values_list("id", "name")
        }
        ids = {one.job for one in decided}
        ids.update(one.beneficiary.id for one in decided if one.beneficiary is not None)
        ids.update(stopped.victim.job for one in decided for stopped in one.stopped)
        for one in found[:DIFFERENCES_MAX]:
            ids.update((one.job, *one.then.other, *one.now.other))
        self._jobs = {
            str(job.pk): job
            for job in Job.objects.filter(pk__in=ids)
            .select_related("team", "user")
            .only("name", "team__path", "user__username")
        }

    def describe(self, one: Decided) -> dict[str, Any]:
        """Return a decision with its numbers and its sentence."""
        own = one.stopped[0] if one.kind is Kind.STOPPED else None
        asked = one.queued or one.beneficiary
        team, pool = (
            (own.run.team, own.run.pool)
            if own is not None
            else (one.queued.team, one.queued.pool)
            if one.queued is not None
            else (None, None)
        )
        place = one.start or one.reclaim
        standings = self._standings(team, pool)
        theirs = (
            self._standings(one.beneficiary.team, one.beneficiary.pool) if one.beneficiary else []
        )
        return {
            "cycle": str(self._cycle.pk),
            "decided_at": iso(self._cycle.decided_at),
            "decision": one.kind.value,
            "sentence": self._sentence(one, self._device(pool).text, standings),
            "job": self._job(one.job),
            "pool": None if pool is None else self._names.get(pool),
            "device": self._device(pool).value,
            "cluster": None if place is None or own else self._names.get(place.cluster),
            "mgpu": own.run.mgpu
            if own
            else _granted_mgpu(one.start)
            if one.start
            else asked.mgpu
            if asked
            else None,
            "guaranteed_mgpu": own.guaranteed_mgpu
            if own
            else one.start.guaranteed_mgpu
            if one.start
            else None,
            "grace_until": None
            if one.reclaim is None
            else iso(from_epoch(self._grace_until(one, own))),
            "standings": standings,
            "beneficiary": None
            if one.beneficiary is None
            else {
                **self._job(one.beneficiary.id),
                "mgpu": one.beneficiary.mgpu,
                "standings": theirs,
            },
            "victims": [] if own else [self._victim(stopped) for stopped in one.stopped],
        }

    def difference(self, one: Difference) -> dict[str, Any]:
        """Return the decision about a job then, and the one of today."""
        return {
            "job": self._job(one.job),
            "then": self._fate(one.then),
            "today": self._fate(one.now),
        }

    def _fate(self, fate: Fate) -> dict[str, Any]:
        return {
            "decision": fate.kind.value,
            "cluster": None if fate.cluster is None else self._names.get(fate.cluster),
            "nodes": list(fate.nodes),
            "other_jobs": [self._job(job) for job in fate.other],
            "code": fate.code,
            "grace_s": fate.grace_s,
        }

    def _grace_until(self, one: Decided, own: Stopped | None) -> int:
        if own is not None:
            return self._replayed.record.plan.taken_at + own.victim.grace_s
        assert one.reclaim is not None
        return one.reclaim.grace_until

    def _job(self, job: str) -> dict[str, Any]:
        return named_job(self._jobs.get(job), actor=self._actor)

    def _victim(self, stopped: Stopped) -> dict[str, Any]:
        named = self._job(stopped.victim.job)
        is_seen = named["id"] is not None
        return {
            **named,
            "mgpu": stopped.run.mgpu,
            "grace_s": stopped.victim.grace_s,
            "right": stopped.right.value,
            "guaranteed_mgpu": stopped.guaranteed_mgpu if is_seen else None,
            "unsaved_s": stopped.unsaved_s if is_seen else None,
            "priority_class": self._classes.get(stopped.run.priority_class) if is_seen else None,
            "started_at": iso(from_epoch(stopped.run.started_at)) if is_seen else None,
        }

    def _standings(self, team: str | None, pool: str | None) -> list[dict[str, Any]]:
        """Return the nodes from the team up whose numbers the actor may see."""
        if team is None or pool is None:
            return []
        return [
            {
                "node": self._names[one.node],
                "guaranteed_mgpu": one.guaranteed_mgpu,
                "in_use_mgpu": one.in_use_mgpu,
            }
            for one in self._replayed.node_uses(team, pool)
            if self._may_see_node(one)
        ]

    def _may_see_node(self, one: NodeUse) -> bool:
        path = self._names.get(one.node)
        return path is not None and self._actor.holds(Permission.VIEW_TREE, f"{path}/")

    def _device(self, pool: str | None) -> DeviceKind:
        """Return the kind of the devices in the pool."""
        return device_of("" if pool is None else pool, self._names)

    # -- sentences ------------------------------------------------------------------------

    def _sentence(
        self,
        one: Decided,
        count: Callable[[int], str],
        standings: Sequence[Mapping[str, Any]],
    ) -> str:
        if one.start is not None and one.queued is not None:
            granted = _granted_mgpu(one.start)
            parted = _parted(granted, one.start.guaranteed_mgpu)
            where = self._on(one.start.cluster)
            return f"It was started with {count(granted)}{where}, {parted}."
        if one.kind is Kind.CLAIM_DROPPED and one.queued is None:
            return (
                "Its claim was dropped, as it no longer waits for GPUs: it was held or cancelled, "
                "or waits for something else first."
            )
        if one.kind is Kind.CLAIM_DROPPED and one.starts:
            return "Its claim was dropped, as it could start on other GPUs."
        if one.kind is Kind.CLAIM_DROPPED:
            return (
                "Its claim was dropped: the GPUs came free too late, went to a job with "
                "precedence, or quota no longer allowed the start."
            )
        assert one.reclaim is not None
        if one.kind is Kind.CLAIMED and one.queued is not None:
            until = f"{from_epoch(one.reclaim.grace_until):%Y-%m-%d %H:%M:%S} UTC"
            where = self._on(one.reclaim.cluster)
            mgpu = one.queued.mgpu
            kept = f"{count(mgpu)} {_were(mgpu)} claimed for it{where}"
            if not one.stopped:
                return f"{kept}, from jobs that were already being stopped, by {until}."
            given = sum(stopped.run.mgpu for stopped in one.stopped)
            jobs = "1 job" if len(one.stopped) == 1 else f"{len(one.stopped):,} jobs"
            return _joined(
                f"{kept}: {jobs} with {count(given)} had to end by {until}.",
                self._entitled("Its", one.queued, one.stopped, count),
            )
        (own,) = one.stopped
        mgpu, whose = own.run.mgpu, self._whose(one, count)
        return _joined(
            f"{count(mgpu)} {_were(mgpu)} reclaimed from it for {whose}"
            f", with {duration_text(own.victim.grace_s)} of grace.",
            _because(own, standings, count),
            self._entitled("The other job's", one.beneficiary, one.stopped, count)
            if one.beneficiary is not None and own.right in (Right.BORROWED, Right.BORROWED_ABOVE)
            else "",
            f"{duration_text(own.unsaved_s)} of its work had no known checkpoint.",
        )

    def _entitled(
        self,
        whose: str,
        job: QueuedJob,
        stopped: Sequence[Stopped],
        count: Callable[[int], str],
    ) -> str:
        """Return a sentence on the guarantee that allowed the reclaim for `job`.

        "" if the actor may not see the node of the guarantee.
        """
        found = self._replayed.entitling_node(job, [one.run for one in stopped])
        use = found.use
        if not self._may_see_node(use):
            return ""
        who = f"{whose} team"
        if not found.is_team:
            kind = "organization" if found.is_top else "department"
            who = f"{whose} {kind} {self._names[use.node]}"
        describe = (
            f"{who} was guaranteed {count(use.guaranteed_mgpu)} and had "
            f"{gpus_text(use.in_use_mgpu)} in use"
        )
        if use.in_use_mgpu + job.mgpu > use.guaranteed_mgpu:
            describe += f", {gpus_text(found.protected_mgpu)} of them within that"
        return f"{describe}."

    def _whose(self, one: Decided, count: Callable[[int], str]) -> str:
        assert one.beneficiary is not None
        named = self._job(one.beneficiary.id)
        size = count(one.beneficiary.mgpu)
        if named["id"] is not None:
            return f"{named['name']} of {named['team']} ({size})"
        whose = f"a job of {named['team']}" if named["team"] else "a job of another organization"
        return f"{whose} ({size})"

    def _on(self, cluster: str) -> str:
        name = self._names.get(cluster)
        return "" if name is None else f" on {name}"


def _because(
    own: Stopped, standings: Sequence[Mapping[str, Any]], count: Callable[[int], str]
) -> str:
    """Return the rule that allowed the preemption, in a sentence."""
    match own.right:
        case Right.PRIORITY:
            return "That job has a higher priority class, which may preempt lower ones."
        case Right.PREEMPTIBLE:
            return "It was submitted as preemptible."
        case Right.BORROWED:
            borrowed = own.run.mgpu - own.guaranteed_mgpu
            return _joined(
                f"{count(borrowed)} of it were borrowed.",
                _use_sentence("Its team", standings, count),
            )
    above = next(
        (one for one in standings[1:] if one["in_use_mgpu"] > one["guaranteed_mgpu"]), None
    )
    if above is None:
        return "Its team's department as a whole had borrowed."
    return _joined(
        "Its team's department as a whole had borrowed.",
        _use_sentence(above["node"], [above], count),
    )


def _use_sentence(
    who: str, standings: Sequence[Mapping[str, Any]], count: Callable[[int], str]
) -> str:
    if not standings:
        return ""
    first = standings[0]
    return (
        f"{who} was guaranteed {count(first['guaranteed_mgpu'])} and had "
        f"{gpus_text(first['in_use_mgpu'])} in use."
    )


def _granted_mgpu(start: Start) -> int:
    """Return the milli-GPU that a job was started with.

    For an elastic job that may be more than its minimum.
    """
    return sum(slot.mgpu for slot in start.slots)


def _parted(mgpu: int, guaranteed: int) -> str:
    if guaranteed == mgpu:
        return "all inside its team's guarantee"
    if guaranteed == 0:
        return "all borrowed"
    return f"{gpus_text(mgpu - guaranteed)} of them borrowed"


def _were(mgpu: int) -> str:
    return "was" if mgpu == MGPU_PER_GPU else "were"


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
