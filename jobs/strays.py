"""Workloads that bear the name of an attempt of ours and are not what its job is charged for.

A user may give the name of one of their attempts to a job of their own, and a cluster may begin
anew what has ended. Such a workload is neither native nor an attempt, and its GPUs are gone all
the same: they count as held outside (`clusters.outside`), and administrators are told by name.

Only what is certain to be ours is stopped: it bears our signature over the attempt and its user,
it has the number that was recorded and released, and the attempt has ended, so that its job has
been settled or runs again elsewhere. What is held is left to `jobs.settling`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from clusters.models import Cluster
from clusters.outside import Holder, OutsideUse, Stranger
from connectors.errors import ConnectorError
from connectors.natives import NativeControl, NativeRef
from connectors.protocol import Listing, Observation, WorkloadPhase
from jobs.leadership import Leadership
from jobs.models import Attempt
from jobs.observation import recorded_id
from outbox.quarantine import is_quarantined

log = logging.getLogger(__name__)

#: Told by name after one listing at most; the sums have all.
NAMED_MAX = 5
#: Stopped after one listing at most; the next listing goes on.
STOPPED_MAX = 20
_KEY_PREFIX = "tg-"
_LIVE = frozenset({WorkloadPhase.STARTING, WorkloadPhase.RUNNING})


@dataclass(frozen=True, slots=True)
class Stray:
    """A workload and why it is no attempt; `is_to_stop` where it is certainly ours and over."""

    observation: Observation
    why: Stranger
    is_to_stop: bool

    @property
    def mgpu(self) -> int:
        """What it holds."""
        if self.observation.is_released:
            return 0
        return sum(slot.mgpu for slot in self.observation.slots or ())


def add_strays(
    use: OutsideUse,
    cluster: Cluster,
    listing: Listing,
    *,
    control: NativeControl,
    leadership: Leadership,
    complain: Callable[[str], None],
) -> OutsideUse:
    """`use` with what strays of `listing` hold; stops those that are certainly ours and over.

    The listing must have been applied (`jobs.observation`). Nothing is stopped in quarantine.
    Raises NotLeading when the leadership is over.
    """
    strays = list(_strays(cluster, listing, leadership))
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
        pk: [one for one in listing.all_of(key) if _counts(one)]
        for key in listing.observations
        if (pk := _id_of(key)) is not None
    }
    others = {pk: found for pk, found in others.items() if found}
    if not others:
        return
    # Behind the fence: a leader of the past would take its successor's attempts for strays.
    with leadership.fence():
        for attempt in Attempt.objects.filter(cluster=cluster, released_at=None).only(
            "id", "native_id"
        ):
            own = listing.seen(attempt.key, recorded_id(attempt))
            others[attempt.pk] = [one for one in others.get(attempt.pk, ()) if one is not own]
        left = [pk for pk, found in others.items() if found]
        attempts = _attempts(left)
    for pk in left:
        for observation in others[pk]:
            is_back = _is_back(cluster, attempts.get(pk), observation)
            yield Stray(
                observation,
                Stranger.BACK if is_back else Stranger.COPY,
                is_back and observation.phase in _LIVE,
            )


def _id_of(key: str) -> UUID | None:
    try:
        return UUID(key.removeprefix(_KEY_PREFIX))
    except ValueError:
        return None


def _counts(observation: Observation) -> bool:
    """Whether it holds GPUs or is going to. What is held is neither."""
    return not observation.is_released and (bool(observation.slots) or observation.phase in _LIVE)


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
    """Whether this is the very workload of an attempt that has ended.

    Of one of which nobody knew whether it ran, a person decides, until they have let its job go on.
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


def _stop(strays: Iterable[Stray], control: NativeControl) -> None:
    for stray in list(strays)[:STOPPED_MAX]:
        seen = stray.observation
        if seen.submitted_at is None:
            continue
        log.warning("job %s of %s has ended here and is back: stopped", seen.native_id, seen.key)
        try:
            # By number, submit time and user, so that whoever has the number next is left alone.
            control.stop(NativeRef(seen.native_id, seen.submitted_at, seen.user))
        except ConnectorError as error:
            log.warning("job %s could not be stopped: %s", seen.native_id, error)
            return


def _sentence(strays: Collection[Stray]) -> str:
    named = [
        f"job {stray.observation.native_id} of {stray.observation.user} with "
        f"{stray.mgpu / 1000:g} GPUs as {stray.observation.key}"
        + (", which has ended here and is being stopped" if stray.is_to_stop else "")
        for stray in sorted(strays, key=lambda one: (-one.mgpu, one.observation.native_id))
    ]
    more = f"; and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return (
        "On the cluster under the name of a job of the portal without being it, so that nobody is "
        f"charged: {'; '.join(named[:NAMED_MAX])}{more}. Ask their users, or cancel them there."
    )
