"""An organization's policy and its priority classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
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
from quotas.guarding import Guard, Write, guarded
from quotas.models import USE_FACTOR_NORMAL, OrganizationPolicy, PriorityClass
from tenants.access import Actor, get_visible, require, under, visible_node
from tenants.models import Node, NodeKind
from tenants.names import check_slug, check_time_zone
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


@dataclass(frozen=True, slots=True)
class ClassRules:
    """The rules of a priority class; see `quotas.models.PriorityClass`."""

    order: int
    preempts_within_team: bool = False
    preempts_across_teams: bool = False
    grace_period_s: int = 300
    team_cap_mgpu: int | None = None
    price_multiplier_ppm: int = PPM
    use_factor_percent: int = USE_FACTOR_NORMAL
    description: str = ""


class PolicyEdit(TypedDict, total=False):
    """The settings of an organization's policy to change; see `models.OrganizationPolicy`."""

    rank: Sequence[str]
    grace_period_s: int
    fair_share_half_life_s: int
    spare_order: SpareOrder
    min_run_s: int
    preemptions_max: int
    skips_blocked_within_team: bool
    time_zone: str


class ClassEdit(TypedDict, total=False):
    """The settings of a priority class to change; see `quotas.models.PriorityClass`."""

    order: int
    preempts_within_team: bool
    preempts_across_teams: bool
    grace_period_s: int
    team_cap_mgpu: int | None
    price_multiplier_ppm: int
    use_factor_percent: int
    description: str
    is_retired: bool


#: The class of jobs that name none.
DEFAULT_PRIORITY_CLASS = "normal"
#: The time zone of an organization without its own.
DEFAULT_TIME_ZONE = "UTC"
#: Most classes of an organization, including retired ones. Limited, as each cycle reads them all.
CLASSES_MAX = 50
#: Needs the right to manage prices. All other settings of a class need the right to manage quota.
_PRICE = "price_multiplier_ppm"

#: Classes of a new organization. Its administrators may add others.
STANDARD_CLASSES: Mapping[str, ClassRules] = {
    "critical": ClassRules(1000, preempts_within_team=True, description="production inference"),
    "high": ClassRules(100, preempts_within_team=True, description="training deadlines"),
    "normal": ClassRules(10, description="research"),
    "low": ClassRules(1, grace_period_s=60, description="experimentation"),
}


def ensure_rules(organization: Node) -> None:
    """Create the standard policy and priority classes for an organization that has none.

    Without a class, no job could be submitted. Existing ones stay unchanged.
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
    """Set the settings in `edit` in the organization's policy. Others stay.

    Raises NotFound for an invisible organization, and Forbidden without manage_quota on it. Raises
    InvalidRequest for an unknown time zone, and for a path in `rank` that is repeated or none of
    the organization's nodes.
    """
    organization = visible_node(actor, organization_path, Permission.MANAGE_QUOTA)
    policy = _locked_policy(organization)
    with _guarded("policy.change", organization, edit, actor=actor, now=now):
        _edit_policy(policy, organization, edit, actor=actor, now=now)
    return policy


@transaction.atomic
def change_policy(
    organization_id: UUID, edit: PolicyEdit, *, actor: Actor, if_version: int, now: datetime
) -> OrganizationPolicy:
    """Change the settings in `edit`, based on the version that the actor has seen.

    Raises what `set_policy` does, and PreconditionFailed unless `if_version` is current.
    """
    organization = visible_organization(actor, organization_id)
    require(actor, Permission.MANAGE_QUOTA, organization)
    policy = _locked_policy(organization)
    refuse_stale(if_version, policy.version, body=None)
    with _guarded("policy.change", organization, edit, actor=actor, now=now):
        _edit_policy(policy, organization, edit, actor=actor, now=now)
    return policy


def _guarded(
    operation: str,
    subject: Node | PriorityClass,
    edit: Mapping[str, Any],
    *,
    actor: Actor,
    now: datetime,
) -> AbstractContextManager[Guard]:
    """Return the guard of a change of an organization's policy, or of a class."""
    organization = subject if isinstance(subject, Node) else subject.organization
    write = Write(operation, {"subject": str(subject.pk), "edit": dict(edit)})
    return guarded(organization, write, actor=actor, now=now)


def policy_of(organization: Node) -> OrganizationPolicy:
    """Return the organization's policy, or the standard one if none is stored."""
    found = OrganizationPolicy.objects.filter(organization=organization).first()
    return found or OrganizationPolicy(organization=organization)


def visible_organization(actor: Actor, organization_id: UUID) -> Node:
    """Return the organization with this id. Raises NotFound if the actor may not see it."""
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
                f"rank names {path!r} twice. Name each node once, the first served first.",
                errors=[FieldError("/rank", f"{path!r} is named twice")],
            )
        if (f"{path}/",) not in known:
            raise InvalidRequest(
                f"rank names {path!r}, which is not a node of {organization}.",
                errors=[FieldError("/rank", f"{path!r} is not a node of the organization")],
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
    """Update the paths of a moved node, and of those below it, in the organization's rank.

    Must run in a transaction.
    """
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
    """Remove a deleted node from the organization's rank, so that no later node gets its rank.

    Must run in a transaction.
    """
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
    """Create or replace the organization's priority class `name`.

    Raises NotFound for an invisible organization, Forbidden without manage_quota on it, and
    InvalidRequest for preemption across teams without a cap.
    """
    organization = visible_node(actor, organization_path, Permission.MANAGE_QUOTA)
    _refuse_without_cap(rules.preempts_across_teams, rules.team_cap_mgpu)
    arguments = {"organization": organization_path, "name": name, "rules": asdict(rules)}
    with guarded(organization, Write("class.set", arguments), actor=actor, now=now):
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
    """Create a priority class of an organization.

    Raises NotFound for an invisible organization. Raises Forbidden without manage_quota on it, or
    without manage_prices for a price of its own. Raises Conflict for a taken name or one class too
    many. Raises InvalidRequest for an invalid name, and for preemption across teams without a cap.
    """
    organization = visible_node(actor, organization_path)
    if organization.kind != NodeKind.ORGANIZATION:
        raise InvalidRequest(
            f"{organization} is not an organization. Only organizations have priority classes.",
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
            + (". It is retired: change is_retired." if taken.is_retired else ". Change that one.")
        )
    if len(known) >= CLASSES_MAX:
        raise Conflict(
            f"{organization} has {CLASSES_MAX} priority classes, which is the limit. Remove one "
            "that no job ever used."
        )
    arguments = {"organization": organization_path, "name": name, "rules": asdict(rules)}
    with guarded(organization, Write("class.create", arguments), actor=actor, now=now):
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
    """Change the settings in `edit`, based on the version that the actor has seen.

    A retired class accepts no new jobs, but its present jobs continue. A new price applies to jobs
    that start from now on. Raises NotFound for an invisible class. Raises Forbidden without
    manage_quota on its organization, or manage_prices for its price. Raises PreconditionFailed
    unless `if_version` is current. Raises InvalidRequest for preemption across teams without a cap.
    Raises Conflict for retiring the default class or the last one.
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
        with _guarded("class.change", found, edit, actor=actor, now=now):
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
    """Remove a priority class that no job ever used, based on the version that the actor has seen.

    Raises NotFound for an invisible class, Forbidden without manage_quota on its organization, and
    PreconditionFailed unless `if_version` is current. Raises Conflict for a class with present or
    past jobs, the default class, and the last one.
    """
    seen = visible_class(actor, class_id)
    require(actor, Permission.MANAGE_QUOTA, seen.organization)
    found = _locked_class(seen)
    refuse_stale(if_version, found.version, body=None)
    _refuse_indispensable(found)
    with _guarded("class.remove", found, {}, actor=actor, now=now):
        _delete(found)
        _record(
            "priority_class.removed",
            seen.organization,
            found.pk,
            {"name": found.name},
            actor=actor,
            now=now,
        )


def _delete(found: PriorityClass) -> None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            # The model's `delete` would load all jobs of the class first, only to refuse.
            cursor.execute("DELETE FROM quotas_timelimit WHERE priority_class_id = %s", [found.pk])
            cursor.execute("DELETE FROM quotas_priorityclass WHERE id = %s", [found.pk])
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    except IntegrityError:
        raise Conflict(
            f"Jobs use or used the class {found.name}, so it cannot be removed. Retire it instead "
            "(is_retired): it then accepts no new jobs, and its present jobs continue."
        ) from None


def _locked_classes(organization: Node) -> list[PriorityClass]:
    """Return the organization's classes, locked against other changes of the list."""
    _locked_policy(organization)
    return list(PriorityClass.objects.filter(organization=organization))


def _locked_class(seen: PriorityClass) -> PriorityClass:
    """Return the present class, locked. Raises NotFound if it was removed meanwhile."""
    _locked_policy(seen.organization)
    found = PriorityClass.objects.select_for_update().filter(pk=seen.pk).first()
    if found is None:
        raise NotFound("It does not exist, or you may not see it.")
    return found


def _refuse_indispensable(found: PriorityClass) -> None:
    if found.name == DEFAULT_PRIORITY_CLASS:
        raise Conflict(f"{found.name} is the class of jobs that name none, so it must stay.")
    others = PriorityClass.objects.filter(organization=found.organization, is_retired=False)
    if not others.exclude(pk=found.pk).exists():
        raise Conflict(
            f"{found.name} is the only class that accepts jobs. Create another one first."
        )


def visible_class(actor: Actor, class_id: UUID) -> PriorityClass:
    """Return the priority class with this id. Raises NotFound if the actor may not see it."""
    return get_visible(
        actor,
        PriorityClass.objects.select_related("organization"),
        Permission.VIEW_TREE,
        path_field="organization__path",
        pk=class_id,
    )


def set_given(row: models.Model, given: Mapping[str, Any]) -> bool:
    """Set the given fields of a row, and return whether any was different before."""
    before = {name: getattr(row, name) for name in given}
    for name, value in given.items():
        setattr(row, name, value)
    return before != dict(given)


def _refuse_without_cap(preempts_across_teams: bool, team_cap_mgpu: int | None) -> None:
    if preempts_across_teams and team_cap_mgpu is None:
        raise InvalidRequest(
            "A class that preempts across teams needs a cap, which limits these preemptions. Set "
            "team_cap_mgpu too.",
            errors=[FieldError("/team_cap_mgpu", "is required for preemption across teams")],
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
