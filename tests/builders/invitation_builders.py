"""Open invitations for tests."""

from __future__ import annotations

from datetime import timedelta

from builders.api_callers import FAR_AHEAD
from builders.portal_builders import NOW
from tenants.access import actor_of
from tenants.invitations import Invited, invite
from tenants.models import Invitation, Node, User
from tenants.roles import Role


def an_invitation(node: Node, by: User, email: str = "paul@example.org") -> Invitation:
    """A stored invitation of a researcher, which does not expire."""
    invited = Invited(email=email, role=Role.RESEARCHER)
    made, _ = invite(actor=actor_of(by), node_id=node.pk, invited=invited, now=NOW)
    Invitation.objects.filter(pk=made.pk).update(expires_at=FAR_AHEAD - timedelta(days=1))
    return made
