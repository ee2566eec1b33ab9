"""An organization's rules of service: its policy and its priority classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from django.db import IntegrityError, connection, models, transaction

from arbiter.api.policy import SpareOrder
from audit.recording import record
from live.publishing import publish
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from primitives.units import PPM
from quotas.models import OrganizationPolicy, PriorityClass
from tenants.access import Actor, get_visible, require, under, visible_node
from tenants.models import Node, NodeKind
from tenants.names import check_slug, check_time_zone
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


@dataclass(frozen=True, slots=True)
class ClassRules:
    """What a priority class means; see `quotas.models.PriorityClass`."""

    order: int
    preempts_within_team: bool = False
    preempts_across_teams: bool = False
    grace_period_s: int = 300
    team_cap_mgpu: int | None = None
    price_multiplier_ppm: int = PPM
    description: str = ""


class PolicyEdit(TypedDict, total=False):
    """What to change of an organization's policy; see `quotas.models.OrganizationPolicy`."""

    rank: Sequence[str]
    grace_period_s: int
    fair_share_half_life_s: int
    spare_order: SpareOrder
    min_run_s: int
    preemptions_max: int
    skips_blocked_within_team: bool
    time_zone: str


class ClassEdit(TypedDict, total=False):
    """What to change of a priority class; see `quotas.models.PriorityClass`."""

    order: int
    preempts_within_team: bool
    preempts_across_teams: bool
    grace_period_s: int
    team_cap_mgpu: int | None
    price_multiplier_ppm: int
    description: str
    is_retired: bool


#: The class of jobs that name none.
DEFAULT_PRIORITY_CLASS = "normal"
#: Where an organization is until it says something else.
DEFAULT_TIME_ZONE = "UTC"
#: So many an organization may have, retired ones included: each cycle reads them all.
CLASSES_MAX = 50
#: What a class costs more is set by who sets prices; all else of it by who manages quota.
_PRICE = "price_multiplier_ppm"

#: What an organization starts with; its administrators may add classes.
STANDARD_CLASSES: Mapping[str, ClassRules] = {
    "critical": ClassRules(1000, preempts_within_team=True, description="production inference"),
    "high": ClassRules(100, preempts_within_team=True, description="training deadlines"),
    "normal": ClassRules(10, description="research"),
    "low": ClassRules(1, grace_period_s=60, description="experimentation"),
}


def ensure_rules(organization: Node) -> None:
    """Give an organization that has none the standard policy and priority classes.

    Without a class no job could be submitted. What is there already stays as it is.
    """
    OrganizationPolicy.objects.get_or_create(organization=organization)
    if not PriorityClass.objects.filter(organization=organization).exists():
        PriorityClass.objects.bulk_create(
            [
                PriorityClass(organization=organization, name=name, **asdict(rules))
                for name, rules in STANDARD_CLASSES.items()
            ],
            ignore_conflicts=True,
        )


@transaction.atomic
def set_policy(
    organization_path: str, edit: PolicyEdit, *, actor: Actor, now: datetime
) -> OrganizationPolicy:
    """Set what `edit` names of the organization's policy; the rest stays.

    Raises NotFound for a foreign organization, Forbidden without manage_quota on it, and
    InvalidRequest for a path in `rank` that is none of its nodes or there twice, and for an unknown
    time zone.
    """
    organization = visible_node(actor, organization_path, Permission.MANAGE_QUOTA)
    policy = _locked_policy(organization)
    _edit_policy(policy, organization, edit, actor=actor, now=now)
    return policy


@transaction.atomic
def change_policy(
    organization_id: UUID, edit: PolicyEdit, *, actor: Actor, if_version: int, now: datetime
) -> OrganizationPolicy:
    """Change what `edit` names of the policy that the actor has seen in this version.

    Raises what `set_policy` does, and PreconditionFailed unless `if_version` is current.
    """
    organization = visible_organization(actor, organization_id)
    require(actor, Permission.MANAGE_QUOTA, organization)
    policy = _locked_policy(organization)
    refuse_stale(if_version, policy.version, body=None)
    _edit_policy(policy, organization, edit, actor=actor, now=now)
    return policy


def policy_of(organization: Node) -> OrganizationPolicy:
    """The organization's policy; the standard one where none is stored."""
    found = OrganizationPolicy.objects.filter(organization=organization).first()
    return found or OrganizationPolicy(organization=organization)


def visible_organization(actor: Actor, organization_id: UUID) -> Node:
    """The organization of this id. Raises NotFound where the actor may not see it."""
    return get_visible(
        actor,
        Node.objects.filter(parent=None),
        Permission.VIEW_TREE,
        path_field="path",
        pk=organization_id,
    )


def _locked_policy(organization: Node) -> OrganizationPolicy:
    OrganizationPolicy.objects.get_or_create(organization=organization)
    return OrganizationPolicy.objects.select_for_update().get(organization=organization)


def _edit_policy(
    policy: OrganizationPolicy, organization: Node, edit: PolicyEdit, *, actor: Actor, now: datetime
) -> None:
    known = set(Node.objects.filter(under([organization.path], "path")).values_list("path"))
    ranked = edit.get("rank", ())
    for place, path in enumerate(ranked):
        if path in ranked[:place]:
            raise InvalidRequest(
                f"rank names {path!r} twice; name each node once, the first served first.",
                errors=[FieldError("/rank", f"{path!r} is named twice")],
            )
        if (f"{path}/",) not in known:
            raise InvalidRequest(
                f"rank names {path!r}, which is no node of {organization}.",
                errors=[FieldError("/rank", f"{path!r} is no node of the organization")],
            )
    if "time_zone" in edit:
        check_time_zone(edit["time_zone"])
    given: dict[str, Any] = dict(edit)
    if "rank" in given:
        given["rank"] = list(given["rank"])
    if set_given(policy, given):
        policy.version += 1
        policy.save()
        _record("policy.changed", organization, organization.pk, given, actor=actor, now=now)


def rename_in_rank(node: Node, former_path: str, *, actor: Actor, now: datetime) -> None:
    """Let the rank of the organization name a node that was moved, and those below it, by their new
    paths. Must run in a transaction."""
    policy = OrganizationPolicy.objects.select_for_update().filter(organization=node.organization)
    found = policy.first()
    if found is None:
        return
    rank = [
        (node.path + f"{path}/".removeprefix(former_path)).rstrip("/")
        if f"{path}/".startswith(former_path)
        else path
        for path in found.rank
    ]
    if rank != found.rank:
        _edit_policy(found, node.organization, {"rank": rank}, actor=actor, now=now)


def remove_from_rank(node: Node, *, actor: Actor, now: datetime) -> None:
    """Let the rank of the organization no longer name a node that was deleted: no later node of its
    path is to have its place. Must run in a transaction."""
    policy = OrganizationPolicy.objects.select_for_update().filter(
        organization=node.organization_id
    )
    found = policy.first()
    if found is not None and node.display_path in found.rank:
        rank = [path for path in found.rank if path != node.display_path]
        _edit_policy(found, node.organization, {"rank": rank}, actor=actor, now=now)


@transaction.atomic
def set_priority_class(
    organization_path: str, name: str, rules: ClassRules, *, actor: Actor, now: datetime
) -> PriorityClass:
    """Give the organization's priority class `name` these rules; a new name is a new class.

    Raises NotFound for a foreign organization, Forbidden without manage_quota on it, and
    InvalidRequest for a class that preempts across teams without a cap.
    """
    organization = visible_node(actor, organization_path, Permission.MANAGE_QUOTA)
    _refuse_without_cap(rules.preempts_across_teams, rules.team_cap_mgpu)
    found, _ = PriorityClass.objects.update_or_create(
        organization=organization, name=name, defaults=asdict(rules)
    )
    _record(
        "priority_class.changed",
        organization,
        found.pk,
        {"name": name, **asdict(rules)},
        actor=actor,
        now=now,
    )
    return found


@transaction.atomic
def create_priority_class(
    organization_path: str, name: str, rules: ClassRules, *, actor: Actor, now: datetime
) -> PriorityClass:
    """Give the organization a new priority class.

    Raises NotFound for a foreign organization, Forbidden without manage_quota on it, or without
    manage_prices for a price of its own, Conflict for a name that is taken or one class too many,
    and InvalidRequest for a name that is no slug and a class that preempts across teams without a
    cap.
    """
    organization = visible_node(actor, organization_path)
    if organization.kind != NodeKind.ORGANIZATION:
        raise InvalidRequest(
            f"{organization} is no organization; priority classes are an organization's.",
            errors=[FieldError("/organization", "is not the slug of an organization")],
        )
    require(actor, Permission.MANAGE_QUOTA, organization)
    if rules.price_multiplier_ppm != PPM:
        require(actor, Permission.MANAGE_PRICES, organization)
    check_slug(name, field="name")
    _refuse_without_cap(rules.preempts_across_teams, rules.team_cap_mgpu)
    known = {each.name: each for each in _locked_classes(organization)}
    if (taken := known.get(name)) is not None:
        raise Conflict(
            f"{organization} has a priority class {name} already"
            + ("; it is retired: change is_retired of it." if taken.is_retired else "; change it.")
        )
    if len(known) >= CLASSES_MAX:
        raise Conflict(
            f"{organization} has {CLASSES_MAX} priority classes, and no more are kept: remove one "
            "that no job was ever of."
        )
    made = PriorityClass.objects.create(organization=organization, name=name, **asdict(rules))
    _record(
        "priority_class.created",
        organization,
        made.pk,
        {"name": name, **asdict(rules)},
        actor=actor,
        now=now,
    )
    return made


@transaction.atomic
def change_priority_class(
    class_id: UUID, edit: ClassEdit, *, actor: Actor, if_version: int, now: datetime
) -> PriorityClass:
    """Change what `edit` names of a priority class that the actor has seen in this version.

    A class that is retired takes no new jobs; those that are of it go on as before. What it costs
    holds for what starts from now on.

    Raises NotFound for a foreign class, Forbidden without manage_quota on its organization, or
    manage_prices for its price, PreconditionFailed unless `if_version` is current, InvalidRequest
    for a class that preempts across teams without a cap, and Conflict for retiring the default
    class or the last one.
    """
    seen = visible_class(actor, class_id)
    if edit.keys() != {_PRICE}:
        require(actor, Permission.MANAGE_QUOTA, seen.organization)
    if _PRICE in edit:
        require(actor, Permission.MANAGE_PRICES, seen.organization)
    found = _locked_class(seen)
    refuse_stale(if_version, found.version, body=None)
    if set_given(found, dict(edit)):
        _refuse_without_cap(found.preempts_across_teams, found.team_cap_mgpu)
        if edit.get("is_retired"):
            _refuse_indispensable(found)
        found.version += 1
        found.save()
        _record(
            "priority_class.changed",
            seen.organization,
            found.pk,
            {"name": found.name, **edit},
            actor=actor,
            now=now,
        )
    return found


@transaction.atomic
def remove_priority_class(class_id: UUID, *, actor: Actor, if_version: int, now: datetime) -> None:
    """Remove a priority class that no job was ever of, as the actor has seen it.

    Raises NotFound for a foreign class, Forbidden without manage_quota on its organization,
    PreconditionFailed unless `if_version` is current, and Conflict for a class that jobs are or
    were of, the default class, and the last one.
    """
    seen = visible_class(actor, class_id)
    require(actor, Permission.MANAGE_QUOTA, seen.organization)
    found = _locked_class(seen)
    refuse_stale(if_version, found.version, body=None)
    _refuse_indispensable(found)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            # Not by the model: that would load all jobs of the class in order to say no.
            cursor.execute("DELETE FROM quotas_priorityclass WHERE id = %s", [found.pk])
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    except IntegrityError:
        raise Conflict(
            f"Jobs are or were of the class {found.name}, so it stays known. Retire it "
            "(is_retired): then no new job can be of it, and those that are go on."
        ) from None
    _record(
        "priority_class.removed",
        seen.organization,
        found.pk,
        {"name": found.name},
        actor=actor,
        now=now,
    )


def _locked_classes(organization: Node) -> list[PriorityClass]:
    """The organization's classes, of which nobody else makes, retires or removes one meanwhile."""
    _locked_policy(organization)
    return list(PriorityClass.objects.filter(organization=organization))


def _locked_class(seen: PriorityClass) -> PriorityClass:
    """The class as it is now. Raises NotFound for one that was removed meanwhile."""
    _locked_policy(seen.organization)
    found = PriorityClass.objects.select_for_update().filter(pk=seen.pk).first()
    if found is None:
        raise NotFound("It does not exist, or you may not see it.")
    return found


def _refuse_indispensable(found: PriorityClass) -> None:
    if found.name == DEFAULT_PRIORITY_CLASS:
        raise Conflict(f"Jobs that name no class are of the class {found.name}, so it stays.")
    others = PriorityClass.objects.filter(organization=found.organization, is_retired=False)
    if not others.exclude(pk=found.pk).exists():
        raise Conflict(
            f"{found.name} is the only class that takes jobs; make another one before it goes."
        )


def visible_class(actor: Actor, class_id: UUID) -> PriorityClass:
    """The priority class of this id. Raises NotFound where the actor may not see it."""
    return get_visible(
        actor,
        PriorityClass.objects.select_related("organization"),
        Permission.VIEW_TREE,
        path_field="organization__path",
        pk=class_id,
    )


def set_given(row: models.Model, given: Mapping[str, Any]) -> bool:
    """Set what is given of a row, and say whether anything was different before."""
    before = {name: getattr(row, name) for name in given}
    for name, value in given.items():
        setattr(row, name, value)
    return before != dict(given)


def _refuse_without_cap(preempts_across_teams: bool, team_cap_mgpu: int | None) -> None:
    if preempts_across_teams and team_cap_mgpu is None:
        raise InvalidRequest(
            "A class that preempts across teams needs a cap: it stops others' jobs only up to it. "
            "Set team_cap_mgpu too.",
            errors=[
                FieldError("/team_cap_mgpu", "is needed by a class that preempts across teams")
            ],
        )


def _record(
    action: str,
    organization: Node,
    subject_id: object,
    detail: dict[str, object],
    *,
    actor: Actor,
    now: datetime,
) -> None:
    record(
        action=action,
        subject_kind=action.partition(".")[0],
        subject_id=subject_id,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=organization.pk,
        node_path=organization.path,
        detail=detail,
        request_id=current_request_id(),
    )
    publish("quotas", organization_id=organization.pk, wake="arbiter")
