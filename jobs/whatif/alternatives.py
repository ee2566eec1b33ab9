"""The alternatives to a waiting job. The arbiter decides each of them without any effect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from arbiter.api.plan import Code
from jobs.arbitration.snapshots import one_instant
from jobs.models import JobOrigin, Launch
from jobs.queue.reason_documents import HELD_BY_USER, iso
from jobs.queue.withholding import (
    ARRAY_LIMIT_REACHED,
    BEGIN_TIME,
    BUDGET_EXHAUSTED,
    CLUSTER_ARCHIVED,
    DEPENDENCY,
    POOL_ARCHIVED,
    SINGLETON,
    TEAM_ARCHIVED,
    USER_CAP_REACHED,
    USER_DEACTIVATED,
)
from jobs.reading.explaining import (
    DISPATCHING,
    NOT_WAITING,
    NOT_YET_DECIDED,
    explanation_of,
)
from jobs.reading.queries import JobView, get_content, get_job
from jobs.reading.stored_requests import body_of_job
from jobs.submission.offers import Offer, offer_to
from jobs.submission.requests import read_job_request
from jobs.submission.resolved_requests import ResolvedRequest
from jobs.submission.submission import resolve
from jobs.whatif.heavy_answers import SEVERAL_CYCLES, worked_out
from jobs.whatif.preview import Moment, Preview, Previews, read_moment
from jobs.whatif.variants import (
    ABOUT_NODES,
    ABOUT_QUOTA,
    VARIANTS_MAX,
    Hints,
    Variant,
    in_smaller_parts,
    least_mgpu,
    limits_of,
    on_fitting,
    outcome,
    possible_mgpu_of,
    variants_of,
)
from primitives.errors import InvalidRequest
from primitives.units import DeviceKind
from tenants.access import Actor, visible_node
from tenants.roles import Permission

#: After so many seconds no further alternative is tried.
TRYING_S_MAX = 5.0

#: Reasons that no other request would change.
_NO_HELP = frozenset(
    {
        HELD_BY_USER,
        DISPATCHING,
        DEPENDENCY,
        SINGLETON,
        ARRAY_LIMIT_REACHED,
        BEGIN_TIME,
        TEAM_ARCHIVED,
        USER_DEACTIVATED,
        CLUSTER_ARCHIVED,
        POOL_ARCHIVED,
    }
)
_DOES_NOT_HELP = "No other request would start sooner."
#: A placeholder, as the arbiter needs no script. No answer contains it.
_SOME_SCRIPT = "true\n"


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another request for the same work, and its preview.

    `request` is the body to send; None if the actor may not read the job's script.
    """

    variant: Variant
    request: Mapping[str, Any] | None
    preview: Preview


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The alternatives to a job, in the order of `jobs.whatif.variants.outcome`.

    Among equal outcomes the smaller concession comes first. `sentence` summarizes the alternatives,
    or says why there are none. `untried` is the number of alternatives that there was no time for.
    """

    as_of: datetime
    sentence: str
    found: Sequence[Alternative] = ()
    untried: int = 0


def alternatives_to(
    job_id: UUID,
    *,
    actor: Actor,
    now: datetime,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> Alternatives:
    """Return previews of other requests, as if one of them replaced the job now.

    Changes nothing. All are decided on one snapshot without the job, each on its own, with the
    actor as submitter. Raises NotFound, Forbidden without the right to submit to the job's team,
    and TooManyRequests while other alternatives are computed.
    """
    view = get_job(job_id, actor=actor, now=now)
    team = visible_node(actor, view.job.team__path, Permission.SUBMIT_JOBS)
    explanation = explanation_of(view, actor=actor, now=now)
    if text := _why_none(view, explanation):
        return Alternatives(now, text)
    body = body_of_job(view.job, get_content(view, actor=actor, now=now))
    device = DeviceKind(view.job.pool__device)
    with worked_out(SEVERAL_CYCLES):
        with one_instant():
            moment = read_moment(now)
            hints = _hints(view, explanation, offer_to(team, actor.user), now)
            asked = [
                (variant, resolved)
                for variant in variants_of(body, device, hints)
                if (resolved := _resolved(variant.of(body), actor)) is not None
            ]
        without = _without(moment, str(job_id), explanation["code"])
        if without is None:
            return Alternatives(now, f"It no longer waits for GPUs. {_DOES_NOT_HELP}")
        previews = Previews(without, actor=actor, now=now, instead_of=str(job_id))
        until_s = monotonic_s() + TRYING_S_MAX

        def tried(variant: Variant, resolved: ResolvedRequest) -> Alternative:
            request = variant.of(body) if "script" in body else None
            return Alternative(variant, request, previews.of(resolved))

        def further(variant: Variant) -> Alternative | None:
            if monotonic_s() >= until_s:
                return None
            resolved = _resolved(variant.of(body), actor)
            return None if resolved is None else tried(variant, resolved)

        found: list[Alternative] = []
        for variant, resolved in asked:
            found.append(tried(variant, resolved))
            if monotonic_s() >= until_s:
                break
        untried = len(asked) - len(found)
        if (gathered := _gathered(found, body, device, hints.possible_mgpu, further)) is not None:
            # It is larger than any other part that starts now, so it is the smallest concession.
            found.insert(0, gathered)
    own_latest = _latest(explanation)
    if own_latest is not None and own_latest <= iso(now):
        own_latest = None
    found.sort(key=partial(_outcome, own_latest=own_latest))
    del found[VARIANTS_MAX:]
    return Alternatives(now, _summed_up(found, untried), found, untried)


def _why_none(view: JobView, explanation: Mapping[str, Any]) -> str:
    """Return why no alternative is tried; "" if alternatives may help."""
    code, text = explanation["code"], explanation["sentence"]
    if code == NOT_WAITING:
        return str(text)
    if view.job.origin == JobOrigin.NATIVE:
        return "It was submitted directly to its cluster, so it can be changed only there."
    if view.job.stored["launch"] == Launch.MANIFEST:
        return (
            "Its size is in its manifest: to ask for less, change the manifest and submit it anew."
        )
    if code == NOT_YET_DECIDED:
        return f"{text} Ask again in a few seconds."
    return f"{text} {_DOES_NOT_HELP}" if code in _NO_HELP or view.quarantine else ""


def _hints(view: JobView, explanation: Mapping[str, Any], offer: Offer, now: datetime) -> Hints:
    job, classes = view.job, offer.priority_classes
    own = classes.get(job.priority_class__name)
    lower = None
    if own is not None and own.team_cap_mgpu is not None:
        # The classes are in descending order.
        lower = next((one.name for one in classes.values() if one.order < own.order), None)
    allowed_s = [max(limit_s for _, limit_s in view.too_short)] if view.too_short else []
    # It may start in any of its pools, so the pool with the most room counts.
    reasons = [explanation, *explanation["elsewhere"]]
    bounds = [possible_mgpu_of(reason["code"], reason["numbers"]) for reason in reasons]
    numbers = [reason["numbers"] for reason in reasons]
    return Hints(
        possible_mgpu=max((bound for bound in bounds if bound is not None), default=None),
        is_about_nodes=any(reason["code"] in ABOUT_NODES for reason in reasons),
        is_about_quota=all(
            reason["code"] in ABOUT_QUOTA or reason["code"] == USER_CAP_REACHED
            for reason in reasons
        ),
        limits_s=limits_of(numbers, allowed_s, at=int(now.timestamp())),
        pools={
            name: offer.fleet(pool).largest_node_mgpu()
            for name, pool in offer.pools.items()
            if pool.device == job.pool__device
            and (
                (most_mgpu := offer.fleet(pool).total_mgpu()) is None
                or job.mgpu_per_node * job.least_node_count <= most_mgpu
            )
        },
        lower_class=lower,
    )


def _gathered(
    found: Sequence[Alternative],
    body: Mapping[str, Any],
    device: DeviceKind,
    possible_mgpu: int | None,
    further: Callable[[Variant], Alternative | None],
) -> Alternative | None:
    """Return a request for all nodes with enough free devices, where free devices are scattered.

    The devices per node are chosen so that the total is largest. None unless this request starts
    now with more than any of `found`. The number of nodes with enough free devices comes from the
    arbiter's reasons for the requests tried so far.
    """
    if not any(map(_fitting, found)):
        return None
    parts = [one for one in map(further, in_smaller_parts(body, device, possible_mgpu)) if one]
    most_mgpu, best = 0, None
    for one in (*found, *parts):
        variant: Variant | None = one.variant
        if not one.preview.would_start_now:
            variant = on_fitting(body, device, one.variant, _fitting(one))
        if variant is not None:
            mgpu = least_mgpu(variant.of(body), device)
            if mgpu > most_mgpu:
                most_mgpu, best = mgpu, variant
    if best is None or any(one.variant is best for one in found):
        return None
    gathered = next((one for one in parts if one.variant is best), None) or further(best)
    return gathered if gathered is not None and gathered.preview.would_start_now else None


def _fitting(one: Alternative) -> int:
    """Return how many nodes have the requested devices free, where they are too few; else 0."""
    text = one.preview.explanation
    if one.preview.would_start_now or text["code"] != Code.TOPOLOGY_FRAGMENTED:
        return 0
    return int(text["numbers"].get("nodes_fitting", 0))


def _resolved(body: Mapping[str, Any], actor: Actor) -> ResolvedRequest | None:
    """Return the resolved request; None if it would be refused.

    For example, no cluster of another pool may run its image.
    """
    try:
        return resolve(read_job_request({"script": _SOME_SCRIPT, **body}), actor=actor)
    except InvalidRequest:
        return None


def _without(moment: Moment, job_id: str, code: str) -> Moment | None:
    """Return the moment as if the job were cancelled.

    None if it waits neither for GPUs nor, by the `code` of its reason, for a budget or a cap.
    """
    snapshot = moment.snapshot
    if code in (BUDGET_EXHAUSTED, USER_CAP_REACHED) and any(
        one.job == job_id for one in moment.withheld
    ):
        return moment
    queued = tuple(job for job in snapshot.queued if job.id != job_id)
    if len(queued) == len(snapshot.queued):
        return None
    claims = tuple(claim for claim in snapshot.claims if claim.job != job_id)
    return moment._replace(snapshot=replace(snapshot, queued=queued, claims=claims))


def _outcome(one: Alternative, own_latest: str | None) -> tuple[int, str]:
    return outcome(
        would_start_now=one.preview.would_start_now,
        fits=one.preview.fits,
        latest=_latest(one.preview.explanation),
        is_part=one.variant.is_part,
        own_latest=own_latest,
    )


def _latest(explanation: Mapping[str, Any]) -> str | None:
    estimate = explanation.get("estimated_start")
    return None if estimate is None else estimate["latest"]


def _summed_up(found: Sequence[Alternative], untried: int) -> str:
    if not found:
        return "The request is minimal already: there are no alternatives."
    starting = sum(one.preview.would_start_now for one in found)
    if starting:
        text = f"{starting} of {len(found)} alternatives would start now."
        if len(found) == 1:
            text = "The only alternative would start now."
    else:
        text = "None of the alternatives tried would start now."
    if untried:
        text += f" {untried} more {'was' if untried == 1 else 'were'} not tried, for lack of time."
    return text
