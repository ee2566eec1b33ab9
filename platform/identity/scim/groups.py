"""Groups that the identity provider pushes, and their members: roles follow at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from scim2_models import InvalidFilterException, PatchOp, PatchOperation
from scim2_models.path import (
    CompareOperator,
    Comparison,
    FilterNode,
    LogicalExpr,
    LogicalOperator,
)

from identity.group_roles import lock_groups, renew_roles_of_members
from identity.models import GroupMembership, ProvisionedGroup, ProvisionedPerson, ScimToken
from identity.scim.patching import OPERATIONS_MAX, patched
from identity.scim.refusals import refuse_stale_etag, taken
from identity.scim.resources import Group as ScimGroup
from identity.scim.resources import group_resource
from identity.scim.tokens import author_of
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from tenants.audit_trail import record_act
from tenants.models import RoleGrant

#: Pushed groups of one organization.
GROUPS_MAX = 5_000
MEMBERS_MAX = 10_000
#: Logins in an audit event.
_NAMED_MAX = 20


def groups_of(token: ScimToken) -> QuerySet[ProvisionedGroup]:
    """Return the pushed groups of the token's organization."""
    return ProvisionedGroup.objects.filter(organization=token.organization)


def group_of(token: ScimToken, group_id: UUID) -> ProvisionedGroup:
    """Return a pushed group. Raises NotFound."""
    group = groups_of(token).filter(pk=group_id).first()
    if group is None:
        raise NotFound("There is no such group. List /Groups, or create the group.")
    return group


def members_of(group: ProvisionedGroup) -> list[UUID]:
    """Return the ids of the group's members, in the order in which they were pushed."""
    rows = GroupMembership.objects.filter(group=group)
    return list(rows.order_by("pk").values_list("person_id", flat=True))


@transaction.atomic
def create_group(token: ScimToken, pushed: ScimGroup, *, now: datetime) -> ProvisionedGroup:
    """Create a group with its members. Its mappings give them their roles at once.

    Raises Conflict for a taken name or external id and more than 5,000 groups, and InvalidRequest
    for members that were not pushed.
    """
    lock_groups(token.organization_id)
    if groups_of(token).count() >= GROUPS_MAX:
        raise Conflict(f"There are {GROUPS_MAX:,} groups already. Delete those that give no role.")
    group = ProvisionedGroup(organization=token.organization, version=0, created_at=now)
    _store(token, group, pushed, _member_ids(pushed.members or []), now)
    return group


@transaction.atomic
def replace_group(
    token: ScimToken, group_id: UUID, pushed: ScimGroup, *, etag: str | None, now: datetime
) -> ProvisionedGroup:
    """Replace name and members of a group. Raises as `create_group`, and PreconditionFailed."""
    group = _locked(token, group_id, etag)
    _store(token, group, pushed, _member_ids(pushed.members or []), now)
    return group


@transaction.atomic
def patch_group(
    token: ScimToken, group_id: UUID, patch: PatchOp[ScimGroup], *, etag: str | None, now: datetime
) -> ProvisionedGroup:
    """Change name or members of a group. Raises as `replace_group`, and SCIMException."""
    group = _locked(token, group_id, etag)
    operations = patch.operations or []
    if len(operations) > OPERATIONS_MAX:
        raise InvalidRequest(f"A PATCH has at most {OPERATIONS_MAX} operations. Send several.")
    members, others = set(members_of(group)), []
    for operation in operations:
        rest = _apply_to_members(operation, members)
        if rest is not None:
            others.append(rest)
    pushed = group_resource(group, [], "")
    if others:
        pushed = patched(pushed, patch.model_copy(update={"operations": others}))
    _store(token, group, pushed, members, now)
    return group


@transaction.atomic
def delete_group(token: ScimToken, group_id: UUID, *, etag: str | None, now: datetime) -> None:
    """Delete a group. Its members lose the roles that it gave, at once."""
    group = _locked(token, group_id, etag)
    members = members_of(group)
    GroupMembership.objects.filter(group=group).delete()
    ProvisionedGroup.objects.filter(pk=group.pk).delete()
    renew_roles_of_members(
        token.organization,
        {*members, *_holders(token, {group.display_name})},
        author=author_of(token),
        now=now,
        ended=[group.display_name],
    )
    _record(token, "provisioned_group_deleted", group, now, removed=len(members))


def _locked(token: ScimToken, group_id: UUID, etag: str | None) -> ProvisionedGroup:
    lock_groups(token.organization_id)
    group = group_of(token, group_id)
    refuse_stale_etag(etag, group.version)
    return group


def _store(
    token: ScimToken,
    group: ProvisionedGroup,
    pushed: ScimGroup,
    wanted: Collection[UUID],
    now: datetime,
) -> None:
    """Make the stored group the pushed one, and renew the roles of the people it concerns."""
    name, external_id = pushed.display_name or "", pushed.external_id or ""
    _refuse_taken(token, group, name, external_id)
    is_new = group.version == 0
    before = set() if is_new else set(members_of(group))
    added, removed = set(wanted) - before, before - set(wanted)
    former = group.display_name
    if not (is_new or added or removed or (former, group.external_id) != (name, external_id)):
        return
    if len(wanted) > MEMBERS_MAX:
        raise InvalidRequest(f"A group has at most {MEMBERS_MAX:,} members. Push several groups.")
    _refuse_strangers(token, added)
    group.display_name, group.external_id = name, external_id
    group.version += 1
    group.changed_at = now
    group.save()
    GroupMembership.objects.filter(group=group, person__in=list(removed)).delete()
    GroupMembership.objects.bulk_create(
        [GroupMembership(group=group, person_id=pk) for pk in wanted if pk in added],
        batch_size=1_000,
    )
    concerned = added | removed
    if former != name:
        concerned |= before | _holders(token, {former, name})
    renew_roles_of_members(
        token.organization, concerned, author=author_of(token), now=now, ended=[former]
    )
    action = "provisioned_group_created" if is_new else "provisioned_group_changed"
    _record(
        token,
        action,
        group,
        now,
        **({} if is_new or former == name else {"former_name": former}),
        added=_logins(added),
        removed=_logins(removed),
    )


def _apply_to_members(
    operation: PatchOperation[ScimGroup], members: set[UUID]
) -> PatchOperation[ScimGroup] | None:
    """Apply the operation to `members`, and return what it changes elsewhere, or None.

    The library walks through all members for each value, so a group of 10,000 would take minutes.
    """
    path, value = operation.path, operation.value
    if path is None or path.model is not None:
        if not isinstance(value, dict):
            return operation
        named = [key for key in value if key.rpartition(":")[2].lower() == "members"]
        for key in named:
            _change_members(operation, members, None, value[key])
        rest = {key: value[key] for key in value if key not in named}
        return operation.model_copy(update={"value": rest}) if rest else None
    binding = path.resolve()
    if binding is None or binding.field_name != "members":
        return operation
    if binding.sub_field_name is not None:
        raise InvalidRequest("A member has no attribute to change. Remove it and add another one.")
    _change_members(operation, members, path.value_filter, value)
    return None


def _change_members(
    operation: PatchOperation[ScimGroup],
    members: set[UUID],
    condition: FilterNode | None,
    value: Any,
) -> None:
    if operation.op == PatchOperation.Op.add:
        members |= set(_member_ids(value))
    elif operation.op == PatchOperation.Op.remove:
        if condition is not None:
            members -= set(_selected(condition))
        elif value is None:
            members.clear()
        else:
            members -= set(_member_ids(value))
    elif condition is None:
        members.clear()
        members |= set(_member_ids(value or []))
    else:
        raise InvalidRequest("A member has no attribute to change. Remove it and add another one.")


def _selected(condition: FilterNode) -> Iterable[UUID]:
    """Yield the ids in `value eq "..."`, joined by `or`. Raises InvalidFilterException."""
    if isinstance(condition, LogicalExpr) and condition.op == LogicalOperator.or_:
        for term in condition.terms:
            yield from _selected(term)
    elif (
        isinstance(condition, Comparison)
        and condition.op == CompareOperator.eq
        and condition.attr_path.attr.lower() == "value"
    ):
        yield _id_of(condition.value)
    else:
        raise InvalidFilterException(detail='Select members by id: members[value eq "ID"].')


def _member_ids(value: Any) -> list[UUID]:
    """Return the ids of a pushed list of members, each once. Raises InvalidRequest."""
    entries = value if isinstance(value, list) else [value]
    if len(entries) > MEMBERS_MAX:
        raise InvalidRequest(f"A group has at most {MEMBERS_MAX:,} members. Push several groups.")
    values = [
        entry.get("value") if isinstance(entry, dict) else getattr(entry, "value", entry)
        for entry in entries
    ]
    return list(dict.fromkeys(_id_of(each) for each in values))


def _id_of(value: Any) -> UUID:
    try:
        return UUID(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise _unknown(str(value)[:80]) from error


def _unknown(named: str) -> InvalidRequest:
    sentence = f"members: there is no user with the id {named}. Push the user first."
    return InvalidRequest(sentence, errors=[FieldError("/members", sentence)])


def _refuse_strangers(token: ScimToken, ids: set[UUID]) -> None:
    """Raise InvalidRequest unless all ids are of pushed people of the organization."""
    known = ProvisionedPerson.objects.filter(
        organization=token.organization, deleted_at=None, pk__in=list(ids)
    )
    strangers = ids - set(known.values_list("pk", flat=True))
    if strangers:
        raise _unknown(str(min(strangers)))


def _refuse_taken(token: ScimToken, group: ProvisionedGroup, name: str, external_id: str) -> None:
    others = groups_of(token).exclude(pk=group.pk)
    if others.filter(display_name__iexact=name).exists():
        # People who may create groups at the provider would otherwise give themselves roles.
        raise taken("displayName", f"There is a group {name} already. Rename one of them.")
    if external_id and others.filter(external_id=external_id).exists():
        raise taken("externalId", f"There is a group with externalId {external_id}.")


def _holders(token: ScimToken, names: set[str]) -> set[UUID]:
    """Return the people whom groups of these names give a role."""
    grants = RoleGrant.objects.filter(node__organization=token.organization, group__in=names - {""})
    return set(grants.values_list("user_id", flat=True))


def _logins(ids: set[UUID]) -> dict[str, object]:
    some = ProvisionedPerson.objects.filter(pk__in=sorted(ids)[:_NAMED_MAX])
    return {"count": len(ids), "logins": sorted(some.values_list("user__login", flat=True))}


def _record(
    token: ScimToken, action: str, group: ProvisionedGroup, now: datetime, **detail: object
) -> None:
    record_act(
        actor=author_of(token),
        action=action,
        subject_kind="scim_group",
        subject_id=group.pk,
        node=token.organization,
        now=now,
        detail={"group": group.display_name, **detail},
    )
