"""The only place that locks quota rows, always in the same order: root to leaf, then by id.

Transactions that lock in different orders can deadlock. So every change of quotas locks here.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import F, Value
from django.db.models.functions import Length, Replace

from quotas.models import Quota
from tenants.access import under
from tenants.models import Node


def lock_quotas(top: Node, pool_id: UUID) -> list[Quota]:
    """Lock the quota of `top` in the pool and all quotas below it. Return them, parents first.

    They are loaded with nodes and pool. Must run in a transaction. It reads twice: the first
    statement may wait for a transaction that adds a quota below, and would not see it. Adding one
    locks its parent. So once all are locked, none can be added, and the second statement sees them
    all.
    """
    steps = Length(F("node__path")) - Length(Replace(F("node__path"), Value("/"), Value("")))
    family = (
        Quota.objects.select_related("node", "pool")
        .filter(under([top.path], "node__path"), pool=pool_id)
        .order_by(steps, "pk")
        .select_for_update(of=("self",))
    )
    list(family)
    return list(family.all())
