"""Loads the demo company into the database. Objects that exist already stay unchanged."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from bank.switching import switch_on
from billing.models import RateCard, RateLine, UsageClass
from budgets.administration import BudgetEdit, NewBudget, create_budget
from budgets.models import Measure, Policy, WindowKind
from clusters.models import Cluster, Pool
from clusters.registration import add_cluster, add_pool, change_cluster
from portal.demo.company_file import Company, NodePart, PersonPart
from portal.demo.persona_file import Persona
from primitives.errors import Conflict, Unauthenticated
from primitives.units import MGPU_PER_GPU, MGPU_S_PER_GPU_HOUR
from quotas.administration import QuotaEdit, create_quota
from quotas.fleet import administrator
from quotas.policies import ClassRules, set_policy, set_priority_class
from tenants.access import Actor, actor_of
from tenants.administrators import create_administrator
from tenants.granting import grant_role
from tenants.membership import create_user
from tenants.models import AccessToken, Node, NodeKind, User, UserKind
from tenants.roles import Role, Scope
from tenants.structure import create_below, create_organization
from tenants.tokens import LIFETIME_DAYS_MAX, actor_by_token, create_token, revoke_token

CLUSTER = "local"
ADMINISTRATOR = "admin"
REASON = "The worked example"
TOKEN_NAME = "Demo"  # noqa: S105 - a name, not a secret
#: Letters and digits that look different from one another.
_READABLE = "abcdefghjkmnpqrstuvwxyz23456789"


class RealPeople(Conflict):
    """People outside the demo use this installation."""


@transaction.atomic
def load_company(
    company: Company, *, cluster_root: str, known: Mapping[str, Persona], now: datetime
) -> tuple[list[Persona], list[str]]:
    """Load `company` unless it exists already, all or nothing.

    An existing company stays unchanged, except for the folder of the local cluster if it has moved.
    `known` are the people of an earlier run by login. A person who is missing there gets a new
    password. A token that no longer works is replaced.

    Returns the active people with their secrets, and the logins of existing people with new
    secrets. Raises RealPeople where people outside the demo work, and PortalError where existing
    objects are in the way.
    """
    _refuse_real_people(company)
    passwords: dict[str, str] = {}
    actor = _administrator(passwords, now=now)
    if not Node.objects.filter(path=f"{company.slug}/").exists():
        _load_fleet(company, cluster_root, actor=actor, now=now)
        _load_tree(company, actor=actor, now=now)
        _load_rules(company, actor=actor, now=now)
        _load_prices(company, now=now)
        _load_budgets(company, actor=actor, now=now)
        for part in company.people:
            _add_person(company, part, passwords, actor=actor, now=now)
    elif actor.is_platform_admin:
        _follow_moved_folder(cluster_root, actor=actor, now=now)
    personas: list[Persona] = []
    renewed: list[str] = []
    for login, described, node in _cast(company):
        user = User.objects.filter(login=login, is_active=True).first()
        if user is None:
            continue
        earlier = known.get(login)
        persona = _with_secrets(user, passwords.get(login), described, node, earlier, now=now)
        personas.append(persona)
        if login not in passwords and persona != earlier:
            renewed.append(login)
    return personas, renewed


def new_password() -> str:
    """Return a password that can be read aloud: four groups of five characters, 99 bits."""
    groups = ("".join(secrets.choice(_READABLE) for _ in range(5)) for _ in range(4))
    return "-".join(groups)


def _refuse_real_people(company: Company) -> None:
    """Raise RealPeople where a real person's password could end up in the demo's file.

    Before the company is loaded, all people count as real, also an administrator with the demo's
    login.
    """
    people = User.objects.filter(kind=UserKind.PERSON)
    if Node.objects.filter(path=f"{company.slug}/").exists():
        people = people.exclude(login__in=[login for login, _, _ in _cast(company)])
    if count := people.count():
        raise RealPeople(
            f"This installation has {count} {'person' if count == 1 else 'people'} who "
            f"{'does' if count == 1 else 'do'} not belong to the demo, so the demo is not loaded. "
            "Load it into an installation of its own."
        )


def _cast(company: Company) -> Iterator[tuple[str, str, str | None]]:
    """Yield login, description and node of each person: "team lead of nlp", "researcher in nlp"."""
    yield ADMINISTRATOR, "platform admin", None
    for part in company.people:
        described = part.role.value.replace("_", " ")
        if part.node:
            joint = "in" if part.role is Role.RESEARCHER else "of"
            described = f"{described} {joint} {part.node.rpartition('/')[2]}"
        node = f"{company.slug}/{part.node}".rstrip("/")
        yield f"{part.username}@{company.slug}", described, node


def _administrator(passwords: dict[str, str], *, now: datetime) -> Actor:
    """Return the platform's administrator. The first one is created without an actor."""
    user = User.objects.filter(login=ADMINISTRATOR).first()
    if user is None:
        passwords[ADMINISTRATOR] = new_password()
        user = create_administrator(
            username=ADMINISTRATOR,
            name="Administrator",
            password=passwords[ADMINISTRATOR],
            now=now,
        )
    return actor_of(user)


def _load_fleet(company: Company, cluster_root: str, *, actor: Actor, now: datetime) -> None:
    by = administrator(actor)
    for pool in company.pools:
        if not Pool.objects.filter(name=pool.name).exists():
            add_pool(pool.name, weight=pool.weight, by=by, now=now)
    if not settings.LOCAL_ROOTS:
        return
    options: dict[str, Any] = {
        "root": cluster_root,
        "nodes": [
            {
                "count": pool.gpus // pool.gpus_per_node,
                "gpus": pool.gpus_per_node,
                "pool": pool.name,
                "prefix": pool.node_prefix,
            }
            for pool in company.pools
        ],
        "use_real_gpus": False,
    }
    add_cluster(CLUSTER, "local", options, by=by, now=now)


def _follow_moved_folder(cluster_root: str, *, actor: Actor, now: datetime) -> None:
    """Update the cluster's folder after the state folder was moved, with all attempts in it."""
    cluster = Cluster.objects.filter(name=CLUSTER).first()
    if settings.LOCAL_ROOTS and cluster is not None and cluster.options.get("root") != cluster_root:
        options = {**cluster.options, "root": cluster_root}
        change_cluster(cluster, options=options, by=administrator(actor), now=now)


def _load_tree(company: Company, *, actor: Actor, now: datetime) -> None:
    create_organization(actor=actor, slug=company.slug, name=company.name, now=now)
    for pool in company.pools:
        edit = QuotaEdit(guaranteed_mgpu=pool.gpus * MGPU_PER_GPU)
        create_quota(company.slug, pool.name, edit, actor=actor, reason=REASON, now=now)
    for part in company.nodes:
        path = f"{company.slug}/{part.path}"
        parent, _, slug = path.rpartition("/")
        create_below(
            actor=actor,
            kind=NodeKind.TEAM if part.is_team else NodeKind.DEPARTMENT,
            parent_path=parent,
            slug=slug,
            name=slug.capitalize() if len(slug) > 3 else slug.upper(),
            now=now,
        )
        for pool in company.pools:
            create_quota(path, pool.name, _edit_of(part), actor=actor, reason=REASON, now=now)


def _edit_of(part: NodePart) -> QuotaEdit:
    if part.guarantee.basis_points is not None:
        return QuotaEdit(guaranteed_bp=part.guarantee.basis_points)
    return QuotaEdit(guaranteed_mgpu=part.guarantee.mgpu or 0)


def _load_rules(company: Company, *, actor: Actor, now: datetime) -> None:
    set_policy(
        company.slug,
        {
            "rank": [f"{company.slug}/{path}" for path in company.rank],
            "grace_period_s": company.grace_period_s,
            "fair_share_half_life_s": company.fair_share_half_life_s,
        },
        actor=actor,
        now=now,
    )
    switch_on(Node.objects.get(path=f"{company.slug}/"), actor=actor, now=now)
    for part in company.priority_classes:
        rules = ClassRules(
            order=part.order,
            preempts_within_team=part.preempts_within_team,
            grace_period_s=part.grace_period_s,
            description=part.use,
        )
        set_priority_class(company.slug, part.name, rules, actor=actor, now=now)


def _load_prices(company: Company, *, now: datetime) -> None:
    """Load prices from the start of this day, so that no part of the day lacks a price."""
    card = RateCard.objects.create(
        organization=Node.objects.get(path=f"{company.slug}/"), currency=company.currency
    )
    prices = (
        (UsageClass.GUARANTEED, company.guaranteed_price_nano),
        (UsageClass.BORROWED, company.borrowed_price_nano),
    )
    RateLine.objects.bulk_create(
        RateLine(
            card=card,
            pool=Pool.objects.get(name=pool.name),
            usage_class=usage_class,
            price_nano=price_nano,
            start=now.replace(hour=0, minute=0, second=0, microsecond=0),
        )
        for pool in company.pools
        for usage_class, price_nano in prices
    )


def _load_budgets(company: Company, *, actor: Actor, now: datetime) -> None:
    """Load budgets that stop nothing. The small one alerts soon after the first jobs."""
    budgets = [(company.slug, Measure.MONEY, 500_000 * 10**9)]
    budgets += [
        (
            f"{company.slug}/{path}",
            Measure.GPU_HOURS,
            (40 if path == company.rank[-1] else 100_000) * MGPU_S_PER_GPU_HOUR,
        )
        for path in company.rank
    ]
    for node, measure, limit in budgets:
        edit = BudgetEdit(
            name=node.rpartition("/")[2].capitalize(),
            limit=limit,
            window=WindowKind.MONTH.value,
            policy=Policy.NOTIFY.value,
        )
        new = NewBudget(node=node, user=None, pool=None, measure=measure.value)
        create_budget(new, edit, actor=actor, now=now)


def _add_person(
    company: Company,
    part: PersonPart,
    passwords: dict[str, str],
    *,
    actor: Actor,
    now: datetime,
) -> None:
    password = new_password()
    user = create_user(
        actor=actor,
        organization_slug=company.slug,
        username=part.username,
        name=part.name,
        kind=UserKind.PERSON,
        password=password,
        must_change_password=False,
        now=now,
    )
    passwords[user.login] = password
    node = f"{company.slug}/{part.node}".rstrip("/")
    grant_role(actor=actor, login=user.login, role=part.role, node_path=node, now=now)


def _with_secrets(
    user: User,
    password: str | None,
    described: str,
    node: str | None,
    earlier: Persona | None,
    *,
    now: datetime,
) -> Persona:
    """Return the person with a valid password and token. `password` is that of a new user."""
    if password is None and earlier is not None:
        password = earlier.password
    if password is None:
        password = new_password()
        user.set_password(password)
        user.save(update_fields=["password"])
    token = earlier.token if earlier is not None else ""
    if not _is_live(user, token, now=now):
        token = _new_token(user, now=now)
    return Persona(described, user.login, password, token, node)


def _is_live(user: User, secret: str, *, now: datetime) -> bool:
    try:
        return actor_by_token(secret, now=now).user.pk == user.pk
    except Unauthenticated:
        return False


def _new_token(user: User, *, now: datetime) -> str:
    """Create a token. Earlier tokens of the demo are revoked, as nobody can have their secrets."""
    actor = actor_of(user)
    for token in AccessToken.objects.filter(user=user, name=TOKEN_NAME, revoked_at=None):
        revoke_token(actor=actor, token_id=token.pk, now=now)
    _, secret = create_token(
        actor=actor,
        name=TOKEN_NAME,
        scopes=[Scope.ADMIN],
        expires_in_days=LIFETIME_DAYS_MAX,
        now=now,
    )
    return secret
