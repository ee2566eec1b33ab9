"""Creates an organization that works at once: policy, first team with quota, administrator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from billing.pricing import create_rate_card
from bulk.trials import rolled_back
from primitives.clock import Clock
from primitives.errors import FieldError, InvalidRequest
from primitives.units import BASIS_POINTS
from quotas.administration import QuotaEdit, create_quota
from quotas.models import Quota
from quotas.policies import DEFAULT_TIME_ZONE, ensure_rules, set_policy
from tenants.access import Actor
from tenants.granting import grant_role
from tenants.invitations import Invited, invite
from tenants.membership import create_user
from tenants.models import Invitation, Node, NodeKind, PasswordLink, User, UserKind
from tenants.names import check_slug, check_time_zone, check_username, clean_name, slug_of
from tenants.passwords import make_password_link
from tenants.roles import Role
from tenants.structure import create_below, create_organization
from treefile.comparing import Comparison
from treefile.importing import ImportRequest, import_into_new, refuse_errors
from treefile.rows import Format

DEFAULT_TEAM = "main"
_REASON = "New organization"


@dataclass(frozen=True, slots=True)
class FirstAdministrator:
    """The first administrator of a new organization."""

    username: str
    name: str
    email: str = ""


@dataclass(frozen=True, slots=True)
class InvitedAdministrator:
    """The first administrator of a new organization, who is invited by mail."""

    email: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class NewOrganization:
    """A request for a new organization. Without a slug, the name gives it.

    The first administrator gets an account (`administrator`), or an invitation (`invited`). `team`
    gets all of the quota. If it is None, the team is `main` where there is an administrator or a
    pool, and no tree file, and there is no team otherwise. `pool` and `guaranteed_mgpu` must come
    together. The text of a tree file, `tree`, comes with its `form`.
    """

    name: str
    slug: str | None = None
    administrator: FirstAdministrator | None = None
    invited: InvitedAdministrator | None = None
    team: str | None = None
    pool: str | None = None
    guaranteed_mgpu: int | None = None
    currency: str | None = None
    time_zone: str = DEFAULT_TIME_ZONE
    tree: str | None = None
    form: Format = Format.CSV


@dataclass(frozen=True, slots=True)
class Made:
    """A new organization and its parts.

    `link` is the administrator's password link with its secret, and `invitation` the invitation
    with that of its link. `imported` has the changes of the tree file. `missing` lists in sentences
    what the organization still lacks.
    """

    organization: Node
    team: Node | None
    administrator: User | None
    link: tuple[PasswordLink, str] | None
    invitation: tuple[Invitation, str] | None
    imported: Comparison | None
    missing: tuple[str, ...]


def preview_organization(wanted: NewOrganization, *, actor: Actor, clock: Clock) -> Made:
    """Return what `make_organization` would make, with all errors of the tree file by line.

    Nothing is changed. Raises as `make_organization` does, but not for errors of the tree file.
    """
    with rolled_back():
        return _make(wanted, actor=actor, clock=clock)


@transaction.atomic
def make_organization(wanted: NewOrganization, *, actor: Actor, clock: Clock) -> Made:
    """Create an organization with the standard priority classes and all parts in `wanted`.

    All or nothing is created. Raises Forbidden unless `actor` is a platform admin, and Conflict for
    a taken slug. Raises InvalidRequest for an invalid part, a wrong line of the tree file, or a
    pool that does not exist.
    """
    made = _make(wanted, actor=actor, clock=clock)
    if made.imported is not None:
        refuse_errors(made.imported, field="/tree/text")
    return made


def _make(wanted: NewOrganization, *, actor: Actor, clock: Clock) -> Made:
    now = clock.now()
    team_slug = _checked_team(wanted)
    slug = wanted.slug or slug_of(wanted.name)
    if not slug:
        raise InvalidRequest(
            "The name has no letters a-z and no digits. Give a slug too.",
            errors=[FieldError("/slug", "is needed with this name", "required")],
        )
    organization = create_organization(actor=actor, slug=slug, name=wanted.name, now=now)
    ensure_rules(organization)
    set_policy(slug, {"time_zone": wanted.time_zone}, actor=actor, now=now)
    if wanted.currency is not None:
        create_rate_card(slug, wanted.currency, actor=actor, now=now)
    team = None
    if team_slug is not None:
        team = create_below(
            actor=actor,
            kind=NodeKind.TEAM,
            parent_path=slug,
            slug=team_slug,
            name=team_slug,
            now=now,
        )
    if wanted.pool is not None and wanted.guaranteed_mgpu is not None:
        edits = [(slug, QuotaEdit(guaranteed_mgpu=wanted.guaranteed_mgpu))]
        if team is not None:
            edits.append((team.display_path, QuotaEdit(guaranteed_bp=BASIS_POINTS)))
        for path, edit in edits:
            create_quota(path, wanted.pool, edit, actor=actor, reason=_REASON, now=now)
    user, link, invitation, imported = None, None, None, None
    if wanted.administrator is not None:
        user, link = _let_in(wanted.administrator, slug, actor=actor, now=now)
    if wanted.invited is not None:
        invited = Invited(wanted.invited.email, Role.ORGANIZATION_ADMIN, name=wanted.invited.name)
        invitation = invite(actor=actor, node_id=organization.pk, invited=invited, now=now)
    if wanted.tree is not None:
        asked = ImportRequest(organization.pk, wanted.tree, wanted.form)
        imported = import_into_new(asked, actor=actor, clock=clock)
    missing = _missing(wanted, organization)
    return Made(organization, team, user, link, invitation, imported, missing)


def _checked_team(wanted: NewOrganization) -> str | None:
    """Return the first team's slug, or None.

    Raises InvalidRequest with this request's field names. The functions that create the parts would
    use names that the caller does not know.
    """
    if (wanted.pool is None) != (wanted.guaranteed_mgpu is None):
        field = "guaranteed_mgpu" if wanted.guaranteed_mgpu is None else "pool"
        raise InvalidRequest(
            "A quota needs both pool and guaranteed_mgpu (1000 per GPU).",
            errors=[FieldError(f"/{field}", "is missing", "required")],
        )
    check_time_zone(wanted.time_zone)
    if wanted.administrator is not None and wanted.invited is not None:
        raise InvalidRequest(
            "Give first_administrator, who gets an account, or invited_administrator, not both.",
            errors=[FieldError("/invited_administrator", "excludes first_administrator")],
        )
    if wanted.administrator is not None:
        check_username(wanted.administrator.username, field="first_administrator/username")
        clean_name(wanted.administrator.name, field="first_administrator/name")
    if wanted.team is not None:
        return check_slug(wanted.team, field="team")
    is_wanted = wanted.administrator or wanted.invited or wanted.pool
    return DEFAULT_TEAM if is_wanted and wanted.tree is None else None


def _let_in(
    administrator: FirstAdministrator, slug: str, *, actor: Actor, now: datetime
) -> tuple[User, tuple[PasswordLink, str]]:
    user = create_user(
        actor=actor,
        organization_slug=slug,
        username=administrator.username,
        name=administrator.name,
        email=administrator.email,
        kind=UserKind.PERSON,
        password=None,
        now=now,
    )
    grant_role(actor=actor, login=user.login, role=Role.ORGANIZATION_ADMIN, node_path=slug, now=now)
    return user, make_password_link(actor=actor, user_id=user.pk, now=now)


def _missing(wanted: NewOrganization, organization: Node) -> tuple[str, ...]:
    found = []
    has_users = User.objects.filter(organization=organization).exists()
    if not has_users and not Invitation.objects.filter(node__organization=organization).exists():
        found.append("It has no users yet: create its first administrator.")
    if not Node.objects.filter(organization=organization, kind=NodeKind.TEAM).exists():
        found.append("It has no team yet: jobs are submitted in teams.")
    if not Quota.objects.filter(node__organization=organization).exists():
        found.append("It has no quota yet: jobs need a quota of the organization and of a team.")
    if wanted.currency is None:
        found.append("It has no rate card yet, so its jobs cost nothing.")
    else:
        found.append("Its rate card has no prices yet, so its jobs cost nothing.")
    return tuple(found)
