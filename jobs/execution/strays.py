"""Workloads with the name of an attempt that are not the attempt itself.

Users may give the name of one of their attempts to a job of their own, or release a held copy of
it. The portal only ever releases a recorded number. So a workload under another number belongs to
its user, and is a native workload like any other of theirs (`jobs.natives.natives`). A cluster may
also begin an ended workload again. A workload that is neither native nor an attempt holds its GPUs
all the same. They count as held outside (`clusters.outside`), and administrators see it by name.

Only a workload that is certainly the portal's is stopped. It bears our signature over the attempt
and its user, and has the recorded and released number. Its attempt has ended, so its job is
finished or runs again elsewhere. Held workloads are left to `jobs.execution.settling`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from clusters.models import Cluster, Pool
from clusters.outside import Holder, OutsideUse, Stranger
from connectors.errors import ConnectorError
from connectors.natives import NativeControl, NativeRef
from connectors.protocol import Listing, NativeWorkload, Observation, WorkloadPhase
from jobs.execution.comparing import recorded_id
from jobs.execution.held_submissions import refuse_released
from jobs.leadership import Leadership
from jobs.models import Attempt
from outbox.quarantine import is_quarantined
from primitives.units import DeviceKind

log = logging.getLogger(__name__)

#: The most strays named after one listing; the sums include all.
NAMED_MAX = 5
#: The most strays stopped after one listing; the next listing goes on.
STOPPED_MAX = 20
_KEY_PREFIX = "tg-"
_LIVE = frozenset({WorkloadPhase.STARTING, WorkloadPhase.RUNNING})


@dataclass(frozen=True, slots=True)
class Stray:
    """A workload, and why it is not an attempt.

    `is_to_stop` means that it is certainly the portal's and over. `is_of_user` means that its user
    started it.
    """

    observation: Observation
    why: Stranger
    is_to_stop: bool
    is_of_user: bool = False

    @property
    def mgpu(self) -> int:
        """The GPUs that it holds, in milli-GPU."""
        if self.observation.is_released:
            return 0
        return sum(slot.mgpu for slot in self.observation.slots or ())


@dataclass(frozen=True, slots=True)
class Found:
    """The strays of a listing, and the users' own workloads under a name of ours."""

    strays: Sequence[Stray] = ()
    natives: Sequence[NativeWorkload] = ()

    def among_natives(self, listing: Listing) -> Listing:
        """Return `listing` with these natives added."""
        return replace(listing, natives=(*listing.natives, *self.natives))


def find_strays(cluster: Cluster, listing: Listing, leadership: Leadership) -> Found:
    """Return the workloads of `listing` that are not attempts.

    The listing must have been applied (`jobs.execution.observation`). Raises NotLeading when the
    leadership is over.
    """
    strays: list[Stray] = []
    natives: list[NativeWorkload] = []
    for stray in _strays(cluster, listing, leadership):
        native = _native_of(stray.observation) if stray.is_of_user else None
        if native is None:
            strays.append(stray)
        else:
            natives.append(native)
    return Found(strays, natives)


def add_strays(
    use: OutsideUse,
    strays: Sequence[Stray],
    *,
    control: NativeControl,
    complain: Callable[[str], None],
) -> OutsideUse:
    """Return `use` plus the GPUs of `strays`, and stop strays that are certainly ours and over.

    Nothing is stopped in quarantine.
    """
    if not strays:
        return use
    if not is_quarantined():
        _stop([stray for stray in strays if stray.is_to_stop], control)
    holding = [stray for stray in strays if stray.mgpu]
    if holding:
        complain(_sentence(holding))
    by_node: dict[tuple[str, str], int] = {}
    held: dict[tuple[str, str, str, str], tuple[int, int]] = {}
    for stray in holding:
        seen = stray.observation
        for slot in seen.slots or ():
            place = (slot.node, seen.pool)
            by_node[place] = by_node.get(place, 0) + slot.mgpu
        holder = (seen.account, seen.user, seen.pool, stray.why.value)
        mgpu, workloads = held.get(holder, (0, 0))
        held[holder] = mgpu + stray.mgpu, workloads + 1
    return use.plus(
        by_node,
        [Holder(*holder, mgpu=mgpu, workloads=count) for holder, (mgpu, count) in held.items()],
    )


def _strays(cluster: Cluster, listing: Listing, leadership: Leadership) -> Iterable[Stray]:
    others = {
        # Ended workloads matter if there are several, since one may be its user's.
        pk: [
            one
            for one in listing.all_of(key)
            if _counts(one) or (key in listing.copies and _ran(one))
        ]
        for key in listing.observations
        if (pk := _id_of(key)) is not None
    }
    others = {pk: found for pk, found in others.items() if found}
    if not others:
        return
    # Behind the fence, because a former leader would take its successor's attempts for strays.
    with leadership.fence():
        for attempt in Attempt.objects.filter(cluster=cluster, released_at=None).only(
            "id", "native_id"
        ):
            own = listing.seen(attempt.key, recorded_id(attempt))
            others[attempt.pk] = [one for one in others.get(attempt.pk, ()) if one is not own]
        left = [pk for pk, found in others.items() if found]
        attempts = _attempts(left)
        # Released before their job was started: no start takes them over, and they are their
        # users'.
        released = refuse_released([pk for pk in left if pk not in attempts], cluster)
    for pk in left:
        for observation in others[pk]:
            known = attempts.get(pk)
            is_back = _is_back(cluster, known, observation)
            yield Stray(
                observation,
                Stranger.BACK if is_back else Stranger.COPY,
                is_back and observation.phase in _LIVE,
                pk in released
                or (
                    known is not None
                    and known.cluster_id == cluster.pk
                    and _is_of_user(known, observation)
                ),
            )


def _id_of(key: str) -> UUID | None:
    try:
        return UUID(key.removeprefix(_KEY_PREFIX))
    except ValueError:
        return None


def _counts(observation: Observation) -> bool:
    """Return whether it holds GPUs or is going to. A held workload does neither."""
    return not observation.is_released and (bool(observation.slots) or observation.phase in _LIVE)


def _ran(observation: Observation) -> bool:
    return observation.is_released and bool(observation.slots)


def _attempts(ids: Sequence[UUID]) -> dict[UUID, Attempt]:
    if not ids:
        return {}
    return {
        attempt.pk: attempt
        for attempt in Attempt.objects.filter(pk__in=ids)
        .select_related("job")
        .only(
            *("id", "cluster_id", "native_id", "released_at", "release_sent_at", "outcome"),
            *("cluster_user", "number", "job__attempt_number"),
        )
    }


def _is_back(cluster: Cluster, attempt: Attempt | None, observation: Observation) -> bool:
    """Return whether this is the very workload of an attempt that has ended.

    If it was unknown whether the attempt ran, this is False until a person has let its job go on.
    """
    return (
        attempt is not None
        and attempt.cluster_id == cluster.pk
        and attempt.released_at is not None
        and attempt.release_sent_at is not None
        and attempt.native_id == observation.native_id
        and attempt.cluster_user == observation.user
        and (attempt.outcome != "unknown" or attempt.number < attempt.job.attempt_number)
    )


def _is_of_user(attempt: Attempt, observation: Observation) -> bool:
    """Return whether the portal certainly never released it.

    Its number is not the recorded one, or no number was recorded before the attempt ended.
    """
    recorded = recorded_id(attempt)
    if recorded is None:
        return attempt.released_at is not None
    return recorded != observation.native_id


def _native_of(seen: Observation) -> NativeWorkload | None:
    """Return `seen` as its user's own workload; None if the GPUs that it holds are unknown."""
    if seen.submitted_at is None or not seen.slots or seen.is_mixed:
        return None
    return NativeWorkload(
        native_id=seen.native_id,
        submitted_at=seen.submitted_at,
        name=seen.key,
        account=seen.account,
        user=seen.user,
        pool=seen.pool,
        mgpu=sum(slot.mgpu for slot in seen.slots),
        native_state=seen.native_state,
        phase=seen.phase,
        is_preemptible=seen.is_preemptible,
        started_at=seen.started_at,
        ended_at=seen.ended_at,
        is_released=seen.is_released,
        outcome=seen.outcome,
        time_limit_s=seen.time_limit_s,
        slots=seen.slots,
        resized_at=seen.resized_at,
    )


def _stop(strays: Iterable[Stray], control: NativeControl) -> None:
    for stray in list(strays)[:STOPPED_MAX]:
        seen = stray.observation
        if seen.submitted_at is None:
            continue
        log.warning("job %s of %s has ended here and is back: stopped", seen.native_id, seen.key)
        try:
            # By number, submit time and user, so that a later job with the same number is left
            # alone.
            control.stop(NativeRef(seen.native_id, seen.submitted_at, seen.user))
        except ConnectorError as error:
            log.warning("job %s could not be stopped: %s", seen.native_id, error)
            return


def _sentence(strays: Collection[Stray]) -> str:
    pools = {stray.observation.pool for stray in strays}
    devices = dict(Pool.objects.filter(name__in=pools).values_list("name", "device"))

    def held(stray: Stray) -> str:
        # A workload over several pools has no pool here.
        return DeviceKind(devices.get(stray.observation.pool, DeviceKind.GPU)).text(stray.mgpu)

    named = [
        f"job {stray.observation.native_id} of {stray.observation.user} with "
        f"{held(stray)} as {stray.observation.key}"
        + (", which has ended here and is being stopped" if stray.is_to_stop else "")
        for stray in sorted(strays, key=lambda one: (-one.mgpu, one.observation.native_id))
    ]
    more = f"; and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return (
        "These jobs bear the name of a job of the portal and were not started by it, so nobody "
        f"is charged: {'; '.join(named[:NAMED_MAX])}{more}. Ask their users, or cancel them there."
    )
