"""Invitations: a person without an account joins a node with a role, and chooses a password."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet

from live.publishing import publish_rights
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound, PortalError
from tenants.access import Actor, actor_of, get_visible, require, visible
from tenants.audit_trail import record_act
from tenants.granting import check_expiry, refuse_outlasting, require_may_hand_out
from tenants.membership import login_of, set_password
from tenants.models import Invitation, Node, RoleGrant, User, UserKind
from tenants.names import check_username, clean_name
from tenants.roles import Permission, Role
from tenants.signing_in import allows_passwords

LIFETIME = timedelta(days=7)
#: The pauses after each refused mail of an imported invitation.
MAIL_PAUSES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 240))
#: The most open invitations of one organization.
OPEN_MAX = 20_000
#: The most invitations of one organization within 24 hours, withdrawn ones included.
MADE_PER_DAY_MAX = 20_000
_LINK = re.compile(r"tdi_[0-9A-Za-z_-]{43}", re.ASCII)
_FOR_PEOPLE = frozenset(Role) - {Role.PLATFORM_ADMIN, Role.SERVICE_ACCOUNT}


@dataclass(frozen=True, slots=True)
class Invited:
    """The person to invite. Without a username, that of the mail address is taken."""

    email: str
    role: Role
    name: str | None = None
    username: str | None = None
    role_expires_at: datetime | None = None


def open_invitations(actor: Actor) -> QuerySet[Invitation]:
    """Return the open invitations to nodes whose members the actor manages."""
    rows = Invitation.objects.select_related("node__organization", "invited_by")
    return visible(
        actor,
        rows.filter(accepted_at=None, withdrawn_at=None),
        Permission.MANAGE_MEMBERS,
        path_field="node__path",
    )


@transaction.atomic
def invite(
    *, actor: Actor, node_id: UUID, invited: Invited, now: datetime
) -> tuple[Invitation, str]:
    """Create an invitation, and return the secret of its link, which cannot be read again.

    Raises NotFound for an invisible node. Raises Forbidden without manage_members on it, without a
    permission of the role there, and for a role that would outlast it. Raises InvalidRequest for
    bad values and roles that are not for people. Raises Conflict for an address or username of an
    existing account, for a second open invitation, and where passwords are switched off.
    """
    node = get_visible(
        actor,
        Node.objects.select_related("organization"),
        Permission.VIEW_TREE,
        path_field="path",
        pk=node_id,
    )
    require(actor, Permission.MANAGE_MEMBERS, node)
    refuse_role(invited.role)
    refuse_without_passwords(node)
    require_may_hand_out(actor, invited.role, node)
    refuse_outlasting(actor, invited.role, node, invited.role_expires_at)
    check_expiry(invited.role_expires_at, now)
    username = check_username(invited.username or username_of(invited.email))
    known = User.objects.filter(organization=node.organization_id)
    has_address = known.filter(email__iexact=invited.email).order_by("login").first()
    if has_address is not None:
        raise Conflict(
            f"{has_address.login} has this address already. Give the role to that login.",
            login=has_address.login,
        )
    _refuse_taken(username, node)
    open_count, made_count = counts_of([node.organization_id], now)
    refuse_too_many(open_count + 1, made_count + 1)
    made, secret = new_invitation(actor, node, invited, username, now)
    try:
        with transaction.atomic():
            made.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(
            f"{invited.email} is invited to {node.display_path} already. Send that one again."
        ) from error
    _record(actor, "invitation_made", made, now)
    return made, secret


@transaction.atomic
def send_again(*, actor: Actor, invitation_id: UUID, now: datetime) -> tuple[Invitation, str]:
    """Give an open invitation a new link for 7 days, from `actor`. The earlier link ends.

    Raises NotFound, Forbidden without a lasting right to give the role there, and Conflict where
    passwords are switched off.
    """
    found = _locked(actor, invitation_id)
    refuse_without_passwords(found.node)
    require_may_hand_out(actor, Role(found.role), found.node)
    refuse_outlasting(actor, Role(found.role), found.node, found.role_expires_at)
    check_expiry(found.role_expires_at, now)
    found.invited_by = actor.user
    secret = _renew(found, now)
    _record(actor, "invitation_sent_again", found, now)
    return found, secret


def due_invitation(now: datetime) -> tuple[Invitation, str] | None:
    """Return an open invitation that is to be mailed, locked, with a new link for 7 days, or None.

    Must run in the transaction that mails it.
    """
    rows = Invitation.objects.select_for_update(of=("self",), skip_locked=True)
    found = (
        rows.select_related("node__organization", "invited_by")
        .filter(mail_due_at__lte=now, accepted_at=None, withdrawn_at=None)
        .order_by("mail_due_at", "pk")
        .first()
    )
    return None if found is None else (found, _renew(found, now))


def mail_later(invitation: Invitation, now: datetime) -> None:
    """Store a refused mail, and its next try after a pause. The sixth refusal is the last.

    Must run in the transaction that locked the invitation.
    """
    tries = invitation.mail_tries
    invitation.mail_due_at = now + MAIL_PAUSES[tries] if tries < len(MAIL_PAUSES) else None
    invitation.mail_tries = tries + 1
    invitation.save(update_fields=["mail_due_at", "mail_tries"])


def _renew(invitation: Invitation, now: datetime) -> str:
    """Give the invitation a new link for 7 days, store it, and return its secret."""
    secret = _new_secret()
    invitation.digest = _digest_of(secret)
    invitation.expires_at = now + LIFETIME
    invitation.mail_due_at = None
    invitation.save(update_fields=["invited_by", "digest", "expires_at", "mail_due_at"])
    return secret


@transaction.atomic
def withdraw(*, actor: Actor, invitation_id: UUID, now: datetime) -> None:
    """End an open invitation. Raises NotFound."""
    found = _locked(actor, invitation_id)
    found.withdrawn_at = now
    found.save(update_fields=["withdrawn_at"])
    _record(actor, "invitation_withdrawn", found, now)


def is_invitation(secret: str) -> bool:
    """Return whether a link's secret has the form of an invitation's."""
    return _LINK.fullmatch(secret) is not None


@transaction.atomic
def accept(*, secret: str, password: str, now: datetime) -> User:
    """Create the invited account with its password and role.

    The sender must still have the right to give the role. Raises NotFound for a link that was used,
    has expired or was withdrawn, or whose sender lost the right. Raises InvalidRequest for a weak
    password, which leaves the link valid. Raises Conflict for a username taken meanwhile, and where
    passwords are switched off.
    """
    rows = Invitation.objects.select_for_update(of=("self",))
    found = (
        rows.select_related("node__organization", "invited_by__organization")
        .filter(digest=_digest_of(secret), accepted_at=None, withdrawn_at=None, expires_at__gt=now)
        .first()
    )
    if found is None or not _may_still(found, now):
        raise NotFound(
            "This invitation does not work: it was used, has expired, or was withdrawn. Ask for a "
            "new one."
        )
    refuse_without_passwords(found.node)
    _refuse_taken(found.username, found.node)
    user = User(
        organization=found.node.organization,
        username=found.username,
        login=login_of(found.username, found.node.organization),
        name=found.name,
        kind=UserKind.PERSON,
        email=found.email,
        created_at=now,
    )
    set_password(user, password)
    user.save(force_insert=True)
    RoleGrant.objects.create(
        user=user,
        role=found.role,
        node=found.node,
        granted_by=found.invited_by,
        created_at=now,
        expires_at=found.role_expires_at,
    )
    found.accepted_at, found.user = now, user
    found.save(update_fields=["accepted_at", "user"])
    publish_rights(user.pk)
    _record(actor_of(user), "invitation_accepted", found, now)
    return user


def _may_still(invitation: Invitation, now: datetime) -> bool:
    sender = actor_of(invitation.invited_by)
    try:
        require(sender, Permission.MANAGE_MEMBERS, invitation.node)
        require_may_hand_out(sender, Role(invitation.role), invitation.node)
        refuse_outlasting(
            sender, Role(invitation.role), invitation.node, invitation.role_expires_at
        )
        check_expiry(invitation.role_expires_at, now)
    except PortalError:
        return False
    return True


def _locked(actor: Actor, invitation_id: UUID) -> Invitation:
    found = open_invitations(actor).select_for_update(of=("self",)).filter(pk=invitation_id).first()
    if found is None:
        raise NotFound("It does not exist, or you may not see it.")
    return found


def refuse_role(role: Role) -> None:
    """Raise InvalidRequest for a role that is not for an invited person."""
    if role not in _FOR_PEOPLE:
        raise InvalidRequest(
            f"Nobody is invited as {role.value}. Choose the role of a person.",
            errors=[FieldError("/role", "is not for an invited person")],
        )


def counts_of(organizations: Collection[UUID], now: datetime) -> tuple[int, int]:
    """Return the numbers of open invitations, and of those made within 24 hours. One query."""
    found = Invitation.objects.filter(node__organization__in=organizations).aggregate(
        open=Count("pk", filter=Q(accepted_at=None, withdrawn_at=None)),
        made=Count("pk", filter=Q(created_at__gt=now - timedelta(days=1))),
    )
    return found["open"], found["made"]


def refuse_too_many(open_count: int, made_count: int) -> None:
    """Raise Conflict for more than `OPEN_MAX` open invitations, or `MADE_PER_DAY_MAX` of a day."""
    if open_count > OPEN_MAX:
        raise Conflict(f"{OPEN_MAX:,} invitations are open already. Withdraw some of them first.")
    if made_count > MADE_PER_DAY_MAX:
        raise Conflict(
            f"{MADE_PER_DAY_MAX:,} people were invited within 24 hours. Invite others tomorrow."
        )


def new_invitation(
    actor: Actor, node: Node, invited: Invited, username: str, now: datetime
) -> tuple[Invitation, str]:
    """Return an invitation that is not stored yet, and the secret of its link."""
    secret = _new_secret()
    made = Invitation(
        node=node,
        email=invited.email,
        username=username,
        name=clean_name(invited.name or username),
        role=invited.role,
        role_expires_at=invited.role_expires_at,
        invited_by=actor.user,
        digest=_digest_of(secret),
        created_at=now,
        expires_at=now + LIFETIME,
    )
    return made, secret


def refuse_without_passwords(node: Node) -> None:
    """Raise Conflict where the organization has switched passwords off."""
    if not allows_passwords(node.organization_id):
        raise Conflict(
            f"{node.organization_slug} has switched passwords off. People sign in with its "
            "identity provider."
        )


def _refuse_taken(username: str, node: Node) -> None:
    if User.objects.filter(organization=node.organization_id, username=username).exists():
        raise Conflict(
            f"There is already a user {login_of(username, node.organization)}. Choose another "
            "username.",
            errors=[FieldError("/username", "is taken", "taken")],
        )


def username_of(email: str) -> str:
    """Return a username made from a mail address: "Ana.Lima@example.org" is `ana.lima`."""
    local = email.partition("@")[0].lower()
    return re.sub(r"[^a-z0-9._-]+", "-", local).strip("._-")[:63].rstrip("._-")


def _new_secret() -> str:
    return "tdi_" + secrets.token_urlsafe(32)


def _digest_of(secret: str) -> bytes:
    # The secret has 256 random bits, so no salt is needed.
    return hashlib.sha256(secret.encode()).digest()


def _record(actor: Actor, action: str, invitation: Invitation, now: datetime) -> None:
    record_act(
        actor=actor,
        action=action,
        subject_kind="invitation",
        subject_id=invitation.pk,
        node=invitation.node,
        now=now,
        detail=detail_of(invitation),
    )


def detail_of(invitation: Invitation) -> dict[str, str]:
    """Return the detail of the audit events of an invitation."""
    return {
        "email": invitation.email,
        "username": invitation.username,
        "role": Role(invitation.role).value,
        "node": invitation.node.display_path,
    }
