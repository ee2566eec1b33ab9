"""People and service accounts: creates, changes, deactivates and deletes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from live.publishing import publish_rights
from live.waking import wake
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from tenants.access import (
    PLATFORM,
    Actor,
    require,
    require_platform_admin,
    under,
    visible_node,
)
from tenants.audit_trail import record_act
from tenants.managing import manages, require_managed
from tenants.models import AccessToken, Node, PasswordLink, RoleGrant, Session, User, UserKind
from tenants.names import check_slug, check_username, clean_name
from tenants.roles import Permission, Role
from webapi.removing import delete_unused

PASSWORD_LENGTH_MAX = 1024


def visible_users(actor: Actor) -> QuerySet[User]:
    """Return the users that `actor` may know of, with their organizations.

    A user who manages members or sees the audit log anywhere in an organization knows all of its
    people, because a team may get any of them as a member. All other users know only themselves.
    """
    prefixes = {
        *actor.prefixes(Permission.MANAGE_MEMBERS),
        *actor.prefixes(Permission.VIEW_AUDIT),
    }
    organizations = {
        prefix if prefix == PLATFORM else prefix.partition("/")[0] + "/" for prefix in prefixes
    }
    condition = under(sorted(organizations), "organization__path") | Q(pk=actor.user.pk)
    return User.objects.select_related("organization").filter(condition)


def visible_user(actor: Actor, login: str) -> User:
    """Return the user with this login. Raises NotFound for absent and invisible users alike."""
    user = visible_users(actor).filter(login=login).first()
    if user is None:
        raise NotFound(f"There is no user {login!r} that you can see.")
    return user


def login_of(username: str, organization: Node | None) -> str:
    """Return the login of a user, which is unique on the whole platform."""
    return username if organization is None else f"{username}@{organization.slug}"


@transaction.atomic
def create_user(
    *,
    actor: Actor,
    organization_slug: str | None,
    username: str,
    name: str,
    kind: UserKind,
    password: str | None,
    now: datetime,
    email: str = "",
    must_change_password: bool = True,
) -> User:
    """Create a person or service account without any role.

    Without a password, the person cannot sign in with a browser. A given password must be changed
    at the first sign-in, unless `must_change_password` is False. Without an organization, the user
    belongs to the platform.

    Raises NotFound for an invisible organization, Forbidden without manage_members on the whole of
    it, InvalidRequest, and Conflict for a taken username.
    """
    organization = None
    if organization_slug is None:
        require_platform_admin(actor)
    else:
        organization = visible_node(
            actor, check_slug(organization_slug, field="organization"), Permission.MANAGE_MEMBERS
        )
    user = User(
        organization=organization,
        username=check_username(username),
        login=login_of(username, organization),
        name=clean_name(name),
        kind=kind,
        email=email,
        must_change_password=password is not None and must_change_password,
        created_at=now,
    )
    set_password(user, password)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(
            f"There is already a user {user.login}.",
            errors=[FieldError("/username", "is taken", "taken")],
        ) from error
    record_act(
        actor=actor,
        action="user_created",
        subject_kind="user",
        subject_id=user.pk,
        node=organization,
        now=now,
        detail={"login": user.login, "name": user.name, "kind": kind.value},
    )
    return user


_activity_callbacks: list[Callable[[UUID], object]] = []


def on_activity_change(callback: Callable[[UUID], object]) -> None:
    """Call `told` with the id of each user whom an administrator deactivates or reactivates.

    The package of identity calls it once, at its start.
    """
    _activity_callbacks[:] = [callback]


def _run_activity_callbacks(user: User) -> None:
    for callback in _activity_callbacks:
        callback(user.pk)


@transaction.atomic
def change_user(
    *,
    actor: Actor,
    user_id: UUID,
    name: str | None = None,
    is_active: bool | None = None,
    email: str | None = None,
    now: datetime,
) -> User:
    """Rename, deactivate or reactivate a user, or change the user's email address.

    Deactivation ends every session and revokes every token at once. Reactivation restores none of
    them. Raises NotFound for invisible users, Forbidden without manage_members on their whole
    organization, and Conflict for the actor's own account. The email address of another user needs
    every right of that user, too. Also raises Conflict for the last
    administrator of the platform or of an organization.
    """
    user_to_change(actor, user_id)
    # All code takes these locks in this order: admins' grants, then the user.
    left_alone = left_alone_by(user_id) if is_active is False else None
    user = (
        User.objects.select_for_update(of=("self",)).select_related("organization").get(pk=user_id)
    )
    detail: dict[str, object] = {"login": user.login}
    if name is not None and clean_name(name) != user.name:
        detail["name"] = {"before": user.name, "after": clean_name(name)}
        user.name = clean_name(name)
        user.save(update_fields=["name"])
        _record(actor, "user_renamed", user, now, detail)
    if email is not None and email != user.email:
        if user.pk != actor.user.pk:
            # The identity provider links accounts by this address.
            require_managed(actor, user)
        user.email = email
        user.save(update_fields=["email"])
        _record(actor, "user_email_changed", user, now, {"login": user.login})
    if is_active is False and user.is_active:
        if user.pk == actor.user.pk:
            raise Conflict("You cannot deactivate yourself; ask another administrator.")
        if left_alone is not None:
            raise Conflict(
                f"This is the last administrator of {left_alone}; make another one first."
            )
        deactivate(user, now)
        _record(actor, "user_deactivated", user, now, {"login": user.login})
        _run_activity_callbacks(user)
    elif is_active is True and not user.is_active:
        user.is_active = True
        user.save(update_fields=["is_active"])
        _run_activity_callbacks(user)
        _record(actor, "user_reactivated", user, now, {"login": user.login})
        # The user's waiting jobs may start now.
        wake("arbiter")
    return user


@transaction.atomic
def delete_user(*, actor: Actor, user_id: UUID, now: datetime) -> None:
    """Delete an account that was never used, with its roles.

    Raises NotFound and Forbidden. Raises Conflict for the actor's own account, for the last
    administrator of something, and for an account that signed in or that other rows refer to.
    """
    user_to_change(actor, user_id)
    left_alone = left_alone_by(user_id)
    user = User.objects.select_for_update().get(pk=user_id)
    if user.pk == actor.user.pk:
        raise Conflict("You cannot delete yourself; ask another administrator.")
    if left_alone is not None:
        raise Conflict(f"This is the last administrator of {left_alone}; make another one first.")
    if user.last_login is not None:
        raise Conflict(
            f"{user.login} has signed in, so deletion is not possible. "
            "Deactivate the account instead.",
            used_by=["sign-ins"],
        )
    organization = user.organization
    RoleGrant.objects.filter(user=user).delete()
    PasswordLink.objects.filter(user=user).delete()
    delete_unused(user, called=user.login, instead="Deactivate the account")
    record_act(
        actor=actor,
        action="user_deleted",
        subject_kind="user",
        subject_id=user_id,
        node=organization,
        now=now,
        detail={"login": user.login},
    )


def user_to_change(actor: Actor, user_id: UUID) -> User:
    """Return the user if the actor may change it. Raises NotFound and Forbidden.

    That is manage_members on the whole organization, or the management of a service account.
    """
    user = visible_users(actor).filter(pk=user_id).first()
    if user is None:
        raise NotFound("It does not exist, or you may not see it.")
    if user.organization is None:
        require_platform_admin(actor)
    elif user.kind != UserKind.SERVICE or not manages(actor, user):
        require(actor, Permission.MANAGE_MEMBERS, user.organization)
    return user


def active_platform_admins(*, besides: UUID) -> int:
    """Return the number of other active platform admins whose role does not expire.

    Locks their grants, so that two admins cannot remove each other at the same moment. Must run in
    a transaction.
    """
    grants = RoleGrant.objects.filter(role=Role.PLATFORM_ADMIN)
    list(grants.select_for_update().order_by("pk").values_list("pk", flat=True))
    return (
        User.objects.filter(
            grants__role=Role.PLATFORM_ADMIN, grants__expires_at=None, is_active=True
        )
        .exclude(pk=besides)
        .count()
    )


def left_alone_by(user_id: UUID) -> str | None:
    """Return the platform or organization whose last active administrator is the user, or None.

    Locks all administrators' grants there, as `active_platform_admins`. Must run in a transaction.
    """
    own = RoleGrant.objects.filter(user=user_id)
    if own.filter(role=Role.PLATFORM_ADMIN).exists() and not active_platform_admins(
        besides=user_id
    ):
        return "the platform"
    own = own.filter(role=Role.ORGANIZATION_ADMIN, node__parent=None)
    for node in Node.objects.filter(pk__in=own.values("node_id")).order_by("pk"):
        if not other_organization_admins(node, besides=user_id):
            return node.display_path
    return None


def lock_administrators(organization: Node) -> QuerySet[RoleGrant]:
    """Lock the grants of an organization's administrators, and return them.

    All code takes these locks before those of users.
    """
    grants = RoleGrant.objects.filter(role=Role.ORGANIZATION_ADMIN, node=organization)
    list(grants.select_for_update().order_by("pk").values_list("pk", flat=True))
    return grants


def other_organization_admins(organization: Node, *, besides: UUID) -> int:
    """Return the number of other active administrators of it whose role does not expire.

    A role by a group is not counted, because it ends with the group. Locks their grants, as
    `active_platform_admins`. Must run in a transaction.
    """
    grants = lock_administrators(organization)
    others = grants.filter(user__is_active=True, expires_at=None, group="").exclude(user=besides)
    return others.count()


def deactivate(user: User, now: datetime) -> None:
    """End the account of a locked user, with its sessions, tokens and sockets."""
    user.is_active = False
    user.session_generation += 1
    user.save(update_fields=["is_active", "session_generation"])
    Session.objects.filter(user=user).delete()
    publish_rights(user.pk)
    AccessToken.objects.filter(user=user, revoked_at=None).update(revoked_at=now)
    PasswordLink.objects.filter(user=user).delete()


def set_password(user: User, password: str | None, *, field: str = "password") -> None:
    """Set the password of an unsaved or locked user, without saving. None removes the password.

    Raises InvalidRequest for a service account, and for a password that is too long or weak.
    """
    if password is None:
        user.set_unusable_password()
        return
    if user.kind == UserKind.SERVICE:
        raise InvalidRequest(
            "A service account has no password. It works with access tokens only.",
            errors=[FieldError(f"/{field}", "must be absent for a service account")],
        )
    if len(password) > PASSWORD_LENGTH_MAX:
        raise InvalidRequest(
            f"A password has at most {PASSWORD_LENGTH_MAX} characters.",
            errors=[FieldError(f"/{field}", "is too long")],
        )
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidRequest(
            " ".join(error.messages),
            errors=[FieldError(f"/{field}", message) for message in error.messages],
        ) from error
    user.set_password(password)


def _record(
    actor: Actor, action: str, user: User, now: datetime, detail: dict[str, object]
) -> None:
    record_act(
        actor=actor,
        action=action,
        subject_kind="user",
        subject_id=user.pk,
        node=user.organization,
        now=now,
        detail=detail,
    )
