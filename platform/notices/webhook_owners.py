"""Notices to the owners of webhooks."""

from __future__ import annotations

from datetime import datetime

from notices.giving import NewNotice, give_notices
from notices.models import NoticeEvent
from notices.recipients import nearest_people
from notices.webhook_models import WebhookTarget
from tenants.roles import Permission

#: The right to manage the webhooks of a node.
MANAGES = Permission.MANAGE_MEMBERS


def tell_of_disabling(target: WebhookTarget, now: datetime) -> None:
    """Tell the person of a target, or those who manage its node, that it is disabled."""
    if target.node is None:
        assert target.user_id is not None, "a target has one owner"
        people = [target.user_id]
    else:
        people = nearest_people(MANAGES, target.node.path)
    give_notices(
        NewNotice(
            user_id=user_id,
            event=NoticeEvent.WEBHOOK_DISABLED,
            key=f"webhook:{target.pk}:{now.isoformat()}",
            subject_kind="webhook",
            subject_id=target.pk,
            sentence=f"The webhook {target.name} is disabled. {target.disabled_reason} Check its "
            "address, then enable it again.",
            link="/notices/webhooks",
            at=now,
        )
        for user_id in people
    )
