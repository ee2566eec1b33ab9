"""The functions that write quotas and rules, by name, to repeat a write that was approved.

Each of them is called with the rights of a person and the present versions. The names are those of
`quotas.guarding.Write`. Packages above add their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from primitives.errors import Conflict
from quotas.administration import change_quota, create_quota
from quotas.models import PriorityClass, Quota
from quotas.planned_changes import apply_planned, cancel_planned
from quotas.planned_reading import etag_of_planned, planned_by_id
from quotas.policies import (
    ClassRules,
    change_policy,
    change_priority_class,
    create_priority_class,
    policy_of,
    remove_priority_class,
    set_priority_class,
    visible_organization,
)
from quotas.second_person import change_second_person_policy, second_person_policy_of
from tenants.access import Actor

#: Repeats a write: arguments, the person, and now.
Operation = Callable[[Mapping[str, Any], Actor, datetime], object]


def _create_quota(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    return create_quota(
        given["node"], given["pool"], given["edit"], actor=actor, reason=given["reason"], now=now
    )


def _change_quota(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    quota = Quota.objects.filter(pk=given["quota"]).first()
    if quota is None:
        raise Conflict("The quota was deleted meanwhile. Reject the request.")
    return change_quota(
        quota.pk,
        given["edit"],
        actor=actor,
        if_version=quota.version,
        reason=given["reason"],
        now=now,
    )


def _apply_planned(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    planned = planned_by_id(actor, UUID(given["planned"]))
    return apply_planned(planned.pk, if_match=etag_of_planned(planned), actor=actor, now=now)


def _keep_planned(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    return cancel_planned(UUID(given["planned"]), actor=actor, now=now)


def _change_policy(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    organization = visible_organization(actor, UUID(given["subject"]))
    version = policy_of(organization).version
    return change_policy(organization.pk, given["edit"], actor=actor, if_version=version, now=now)


def _change_second_person(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    organization = visible_organization(actor, UUID(given["organization"]))
    version = second_person_policy_of(organization).version
    return change_second_person_policy(
        organization.pk, given["edit"], actor=actor, if_version=version, now=now
    )


def _class(given: Mapping[str, Any]) -> PriorityClass:
    found = PriorityClass.objects.filter(pk=given["subject"]).first()
    if found is None:
        raise Conflict("The class was removed meanwhile. Reject the request.")
    return found


def _change_class(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    found = _class(given)
    return change_priority_class(
        found.pk, given["edit"], actor=actor, if_version=found.version, now=now
    )


def _remove_class(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    found = _class(given)
    return remove_priority_class(found.pk, actor=actor, if_version=found.version, now=now)


def _create_class(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    rules = ClassRules(**given["rules"])
    return create_priority_class(given["organization"], given["name"], rules, actor=actor, now=now)


def _set_class(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    rules = ClassRules(**given["rules"])
    return set_priority_class(given["organization"], given["name"], rules, actor=actor, now=now)


OPERATIONS: dict[str, Operation] = {
    "quota.create": _create_quota,
    "quota.change": _change_quota,
    "quota_change.apply": _apply_planned,
    "quota_change.keep": _keep_planned,
    "policy.change": _change_policy,
    "class.create": _create_class,
    "class.set": _set_class,
    "class.change": _change_class,
    "class.remove": _remove_class,
    "second_person.change": _change_second_person,
}


def add_operation(name: str, operation: Operation) -> None:
    """Add the writing function of a package above. The package calls it once, at its start."""
    OPERATIONS[name] = operation
