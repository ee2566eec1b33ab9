"""The one place that locks quota rows, always in the same order: root to leaf, then by id.

Two transactions that lock in different orders deadlock; every change of quotas locks
through here.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import F, QuerySet, Value
from django.db.models.functions import Length, Replace

from quotas.models import Quota
from tenants.access import under
from tenants.models import Node


def lock_quotas(top: Node, pool_id: UUID) -> list[Quota]:
    """Lock the quota of `top` in the pool and all quotas below it, and return them, parents
    first, with their nodes. Must run in a transaction.

    The quota of `top` is locked by a statement of its own: whoever adds a quota below it
    holds that lock, so the statement that reads what is below sees everything committed.
    """
    own = list(_locked().filter(node=top, pool=pool_id))
    below = _locked().filter(under([top.path], "node__path"), pool=pool_id).exclude(node=top)
    steps = Length(F("node__path")) - Length(Replace(F("node__path"), Value("/"), Value("")))
    return own + list(below.order_by(steps, "pk"))


def _locked() -> QuerySet[Quota]:
    return Quota.objects.select_related("node", "pool").select_for_update(of=("self",))
