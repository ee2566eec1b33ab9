"""The audiences of a person: hints reach people who may see the same objects over REST."""

from __future__ import annotations

from live.publishing import COSTS, EVERYBODY, PLATFORM, person, readers_below
from tenants.access import actor_of
from tenants.factor_policy import must_enrol
from tenants.models import User
from tenants.roles import Permission
from tenants.session_store import SessionStore


def may_listen(user: User, session: SessionStore) -> bool:
    """Return whether open pages of this session get hints, as REST would answer it."""
    return not user.must_change_password and not must_enrol(user, session)


def audiences_of(user: User) -> list[str]:
    """Return the audiences that `user` belongs to now."""
    actor = actor_of(user)
    audiences = [EVERYBODY, person(user.pk)]
    if user.organization_id is not None:
        audiences.append(str(user.organization_id))
    if actor.is_platform_admin:
        audiences.append(PLATFORM)
    if actor.prefixes(Permission.VIEW_COSTS):
        audiences.append(COSTS)
    return audiences + [readers_below(one) for one in actor.prefixes(Permission.VIEW_JOBS)]
