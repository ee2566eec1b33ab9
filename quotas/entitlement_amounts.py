"""The amounts of a team's entitlement in a pool, and a sentence on them.

Pages, the API, the command line and the status of native jobs show the same amounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from primitives.units import DeviceKind, gpus_text
from quotas.models import NodeUse, Quota


@dataclass(frozen=True, slots=True)
class EntitlementAmounts:
    """The guarantee and limits of a team in a pool, and its use after the last cycle.

    `at_risk_mgpu` is the use of running jobs that others may reclaim: jobs that do not fit in the
    guarantee as a whole. It may exceed what is borrowed. A `borrow_limit_mgpu` of None sets no
    limit of its own.
    """

    guaranteed_mgpu: int = 0
    lend_limit_mgpu: int | None = None
    borrow_limit_mgpu: int | None = None
    in_use_mgpu: int = 0
    at_risk_mgpu: int = 0
    borrowed_mgpu: int = 0
    lent_mgpu: int = 0
    available_mgpu: int = 0
    waiting_mgpu: int = 0

    def sentence(self, name: str, device: DeviceKind) -> str:
        """Return the amounts in words, for the team called `name`."""
        within = self.in_use_mgpu - self.borrowed_mgpu
        if self.guaranteed_mgpu == 0:
            first = f"{name} is guaranteed no {device.plural}"
            if self.borrowed_mgpu:
                first += f" and uses {gpus_text(self.borrowed_mgpu)} borrowed ones"
        else:
            part = "all" if within == self.guaranteed_mgpu else gpus_text(within)
            first = f"{name} uses {part} of its {gpus_text(self.guaranteed_mgpu)} guaranteed "
            first += device.singular if self.guaranteed_mgpu == 1_000 else device.plural
            if self.borrowed_mgpu:
                first += f" and {gpus_text(self.borrowed_mgpu)} borrowed ones"
        if self.at_risk_mgpu:
            return f"{first}; {gpus_text(self.at_risk_mgpu)} may be reclaimed."
        if self.lent_mgpu:
            return f"{first}; {gpus_text(self.lent_mgpu)} are lent to others."
        return f"{first}."


def entitlement_amounts(quota: Quota | None, use: NodeUse | None) -> EntitlementAmounts:
    """Return the amounts of a node from its stored rows; None stands for a row that is missing."""
    return EntitlementAmounts(
        guaranteed_mgpu=0 if quota is None else quota.guaranteed_mgpu,
        lend_limit_mgpu=None if quota is None else quota.lend_limit_mgpu,
        borrow_limit_mgpu=None if quota is None else quota.borrow_limit_mgpu,
        in_use_mgpu=0 if use is None else use.in_use_mgpu,
        at_risk_mgpu=0 if use is None else use.in_use_mgpu - use.protected_mgpu,
        borrowed_mgpu=0 if use is None else use.borrowed_mgpu,
        lent_mgpu=0 if use is None else use.lent_mgpu,
        available_mgpu=0 if use is None else use.available_mgpu,
        waiting_mgpu=0 if use is None else use.waiting_mgpu,
    )


def entitlement_sentences(places: Collection[tuple[UUID, UUID]]) -> Mapping[tuple[UUID, UUID], str]:
    """Return a sentence for each (team, pool) in `places` that has a quota. Two queries."""
    if not places:
        return {}
    teams, pools = zip(*places, strict=True)
    quotas = Quota.objects.filter(node__in=teams, pool__in=pools).select_related("node", "pool")
    uses = {
        (use.node_id, use.pool_id): use
        for use in NodeUse.objects.filter(node__in=teams, pool__in=pools)
    }
    return {
        place: entitlement_amounts(quota, uses.get(place)).sentence(
            quota.node.slug, quota.pool.kind
        )
        for quota in quotas
        if (place := (quota.node_id, quota.pool_id)) in places
    }
