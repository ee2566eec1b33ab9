"""Tells a core what changed from one snapshot to the next."""

from __future__ import annotations

from arbiter.api.snapshot import Snapshot
from arbiter.cycle.scheduler import Core


def tell(core: Core, before: Snapshot, after: Snapshot) -> None:
    """Tell `core` what changed."""
    if after.devices != before.devices or after.clusters != before.clusters:
        core.set_devices(after.devices, after.clusters)
    if after.maintenance != before.maintenance:
        core.set_maintenance(after.maintenance)
    tree = (after.nodes, after.quotas, after.priority_classes, after.pool_weights)
    if tree != (before.nodes, before.quotas, before.priority_classes, before.pool_weights):
        core.set_tree(*tree)
    if after.usage != before.usage:
        core.set_usage(after.usage)
    if after.balances != before.balances:
        core.set_balances(after.balances)
    was_queued = {job.id: job for job in before.queued}
    for job in after.queued:
        if was_queued.pop(job.id, None) != job:
            core.queue(job)
    for job_id in was_queued:
        core.withdraw(job_id)
    was_running = {run.attempt: run for run in before.running}
    for run in after.running:
        if was_running.pop(run.attempt, None) != run:
            core.hold(run)
    for attempt in was_running:
        core.release(attempt)
    was_claimed = {claim.job: claim for claim in before.claims}
    for claim in after.claims:
        known = was_claimed.pop(claim.job, None)
        if known is not None and known != claim:
            core.unclaim(claim.job)
        if known != claim:
            core.claim(claim)
    for job_id in was_claimed:
        core.unclaim(job_id)
