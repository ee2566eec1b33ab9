"""The one place that locks quota rows, always in the same order: root to leaf, then by id.

Two transactions that lock in different orders deadlock; every change of quotas locks
through here.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import F, Value
from django.db.models.functions import Length, Replace

from quotas.models import Quota
from tenants.access import under
from tenants.models import Node


def lock_quotas(top: Node, pool_id: UUID) -> list[Quota]:
    """Lock the quota of `top` in the pool and all quotas below it, and return them, parents
    first, with their nodes and pool. Must run in a transaction.

    Reads twice: the first statement may wait for somebody who is just adding a quota below, and
    would not see it. Whoever adds one has locked its parent, so once all are locked none can
    come, and the second statement, which never waits, sees them all.
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
