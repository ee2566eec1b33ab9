"""Held submissions: release the recorded one, remove the others from the cluster.

A cluster that holds submissions may have taken one submission twice, or may still forget an
accepted one. So only the recorded id of an attempt is ever released. It must have been listed so
long after its submit time that the cluster can no longer forget it and reuse its id.
Level-triggered: a failed release or removal is repeated after the next listing.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Coalesce, Now

from clusters.models import Cluster
from connectors.errors import ConnectorError
from connectors.protocol import ClusterConnector, Listing, Observation, WorkloadPhase
from jobs.execution.held_submissions import unadopted_among
from jobs.leadership import Leadership
from jobs.models import Attempt, AttemptState
from outbox.quarantine import is_quarantined

log = logging.getLogger(__name__)

#: The most releases and removals after one listing; the next listing goes on.
SETTLED_MAX = 1_000
#: No call begins after so many seconds. A cluster may take five seconds to refuse one, and is not
#: observed meanwhile.
SETTLING_S_MAX = 3
#: Calls at the same time, since a call mostly waits for the cluster's answer.
AT_ONCE = 4
_KEY_PREFIX = "tg-"


def settle(
    cluster: Cluster,
    connector: ClusterConnector,
    listing: Listing,
    *,
    leadership: Leadership,
    complain: Callable[[str], None] | None = None,
) -> tuple[int, int]:
    """Release and remove what `listing` allows; return both counts.

    The release of an attempt is committed before the cluster is called. A held workload of an
    unknown attempt is left alone and reported, because it may be from before a restore. A
    submission for an open claim is left alone too, and removed once the claim is closed. Nothing is
    done in quarantine. `complain` is called with each refusal of the cluster. Raises NotLeading
    when the leadership is over.
    """
    if not connector.submits_held or is_quarantined():
        return 0, 0
    held = list(_settled(listing, connector.settle_s))[:SETTLED_MAX]
    if not held:
        return 0, 0
    # Behind the fence, because a former leader would remove submissions that its successor has
    # recorded.
    with leadership.fence():
        attempts = {
            attempt.key: attempt
            for attempt in Attempt.objects.filter(
                cluster=cluster, pk__in=[attempt_id for attempt_id, _ in held]
            ).only("id", "native_id", "state", "released_at")
        }
        unadopted = unadopted_among(
            [attempt_id for attempt_id, one in held if one.key not in attempts], cluster
        )
    release: list[Observation] = []
    remove: list[Observation] = []
    strangers = 0
    for attempt_id, observation in held:
        attempt = attempts.get(observation.key)
        if attempt_id in unadopted.lost:
            remove.append(observation)
        elif attempt_id in unadopted.waiting:
            continue
        elif attempt is None:
            strangers += 1
        elif _is_wanted(attempt, observation):
            # Only its holder may release a job that others hold, and the job says so. A job that
            # can never start, or was altered, is withdrawn (`jobs.execution.withdrawing`).
            if not (
                observation.is_held_by_others or observation.never_starts or observation.is_altered
            ):
                release.append(observation)
        elif not _may_become_wanted(attempt):
            remove.append(observation)
    if strangers:
        log.warning(
            "%s holds %d workloads of attempts that are unknown here; they are left alone",
            cluster.name,
            strangers,
        )
    return (
        _release(connector, release, leadership, complain),
        _carry_out(connector.remove_copy, remove, complain),
    )


def _settled(listing: Listing, settle_s: int) -> Iterator[tuple[UUID, Observation]]:
    for key in listing.observations:
        attempt_id = attempt_id_of(key)
        if attempt_id is None:
            continue
        for observation in listing.all_of(key):
            if (
                observation.phase is WorkloadPhase.HELD
                and observation.submitted_at is not None
                and listing.observed_at - observation.submitted_at >= settle_s
            ):
                yield attempt_id, observation


def attempt_id_of(key: str) -> UUID | None:
    """Return the attempt whose workload has this key; None for a key of no attempt."""
    try:
        return UUID(key.removeprefix(_KEY_PREFIX))
    except ValueError:
        return None


def _is_wanted(attempt: Attempt, observation: Observation) -> bool:
    """Return whether this is the recorded submission of an attempt that is to run."""
    return (
        attempt.native_id == observation.native_id
        and attempt.released_at is None
        and attempt.state in (AttemptState.RESERVED, AttemptState.STARTING)
    )


def _may_become_wanted(attempt: Attempt) -> bool:
    """Return whether dispatch may still record one of the copies."""
    return attempt.native_id is None and attempt.released_at is None


def _release(
    connector: ClusterConnector,
    wanted: Sequence[Observation],
    leadership: Leadership,
    complain: Callable[[str], None] | None,
) -> int:
    if not wanted:
        return 0
    with leadership.fence():
        # Read again under the fence, because a stop may have been requested since.
        Attempt.objects.filter(
            pk__in=[attempt_id_of(one.key) for one in wanted],
            state__in=[AttemptState.RESERVED, AttemptState.STARTING],
            released_at=None,
        ).update(release_sent_at=Coalesce(F("release_sent_at"), Now()))
        marked = {
            attempt.key
            for attempt in Attempt.objects.filter(
                ~Q(release_sent_at=None),
                pk__in=[attempt_id_of(one.key) for one in wanted],
                state__in=[AttemptState.RESERVED, AttemptState.STARTING],
            ).only("id")
        }
    return _carry_out(connector.release, [one for one in wanted if one.key in marked], complain)


def _carry_out(
    act: Callable[[str, str], None],
    observations: Sequence[Observation],
    complain: Callable[[str], None] | None,
) -> int:
    ends_at = time.monotonic() + SETTLING_S_MAX

    def try_one(observation: Observation) -> str | None:
        """Why it was refused, "" when it was not, None when there was no time left."""
        if time.monotonic() > ends_at:
            return None
        try:
            act(observation.key, observation.native_id)
        except ConnectorError as error:
            # The next listing says whether it had its effect.
            log.warning("%s on its cluster: %s", observation.key, error)
            return str(error)
        return ""

    if not observations:
        return 0
    # In random order, so that repeated refusals do not always delay the same others.
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="settle") as pool:
        results = list(pool.map(try_one, random.sample(observations, len(observations))))
    if complain is not None:
        for refusal in filter(None, results):
            complain(refusal)
    return results.count("")
