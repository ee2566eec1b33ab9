"""A recorded cycle, decided again by today's version, policies and priority classes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from arbiter.cycle.decide import decide
from arbiter.replay.replay import (
    Replayed,
    by_rules_of,
    differences,
)
from jobs.arbitration.recording import unpack
from jobs.models import Cycle
from jobs.reading.decisions import DIFFERENCES_MAX, DecisionWriter, cycle_body
from jobs.whatif.heavy_answers import ONE_CYCLE, worked_out
from primitives.errors import Conflict, NotFound
from quotas.installation import arbiter_policy
from quotas.queries import quota_snapshot
from tenants.access import Actor, require_platform_admin


def replay_cycle(cycle_id: UUID, *, actor: Actor) -> dict[str, Any]:
    """Return the decisions of a cycle, and how they would differ today.

    Today's decisions follow this version, the present policies of the installation and of
    organizations, and the present priority classes.

    Raises Forbidden, NotFound, Conflict for an unreadable record, and TooManyRequests while other
    answers are computed.
    """
    require_platform_admin(actor)
    cycle = Cycle.objects.filter(pk=cycle_id).first()
    if cycle is None:
        raise NotFound("There is no record of this cycle; it may have been dropped as too old.")
    record = unpack(bytes(cycle.body))
    replayed = Replayed(record)
    decided = replayed.decided()
    policy, rules = arbiter_policy(), quota_snapshot(())
    as_of_today = by_rules_of(record.snapshot, rules.nodes, rules.priority_classes)
    with worked_out(ONE_CYCLE):
        try:
            today = decide(as_of_today, policy)
        except ValueError as error:
            raise Conflict(f"The record of this cycle cannot be decided anew: {error}.") from None
        found = differences(record.plan, today)
    writer = DecisionWriter(replayed, cycle, decided, actor, found)
    return {
        **cycle_body(cycle),
        "queued": len(record.snapshot.queued),
        "running": len(record.snapshot.running),
        "decisions": [writer.describe(one) for one in decided],
        "is_same_policy": policy == record.policy and as_of_today == record.snapshot,
        "difference_count": len(found),
        "differences": [writer.difference(one) for one in found[:DIFFERENCES_MAX]],
    }
