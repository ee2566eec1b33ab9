"""Several edits of quotas together: drafted, decided, applied at a time, reverted.

A draft needs the right to change some setting of each quota. Applying needs the rights to all
edits. So a team lead's draft is a request to the administrator above.

A scheduled change is applied with the present rights of the user who decided it, and only if its
quotas have not changed since. A revert needs no rights, because it was part of the decision. A
percentage that resolves to other GPUs, because its parent changed, is no change of that quota
(`was_changed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from audit.recording import record
from live.publishing import publish
from notices.second_person import tell_deciders, tell_requester
from primitives.errors import (
    Conflict,
    FieldError,
    InvalidRequest,
    NotFound,
    PortalError,
    PreconditionFailed,
)
from quotas.administration import (
    QuotaEdit,
    change_together,
    edit_together,
    named_refusals,
    parent_path,
    require_edit,
    require_parents_right,
    require_rights,
    settle_together,
)
from quotas.envelope import Family
from quotas.guarding import Guard, Write, decided, guarded, was_decided
from quotas.locks import lock_quotas
from quotas.models import PlannedChange, PlannedEdit, PlannedStatus, Quota
from quotas.planned_reading import (
    IN_HISTORY,
    edit_of,
    edits_of,
    etag_of_planned,
    may_apply,
    nodes_with_edits_of_the_parent,
    planned_by_id,
    require_management,
    with_names,
)
from quotas.quota_notices import request_of
from quotas.quota_store import REASON_LENGTH_MAX, values_of
from tenants.access import Actor, actor_of, under, visible
from tenants.models import Node
from tenants.names import clean_name
from tenants.roles import Permission
from webapi.middleware import current_request_id

EDITS_MAX = 100
REVERT_AFTER_S_MIN, REVERT_AFTER_S_MAX = 60, 366 * 86_400
#: Time after which a draft without a decision expires, unless its own time comes first.
DRAFTED_FOR = timedelta(days=7)
APPLIED_WITHIN = timedelta(days=366)
#: Number of changes that one round of the timer applies, expires or reverts.
ROUND_MAX = 100
#: The two forms of a guarantee, of which a quota has one.
_GUARANTEES = frozenset({"guaranteed_mgpu", "guaranteed_bp"})
_CANCELLABLE = (PlannedStatus.DRAFT, PlannedStatus.SCHEDULED)
#: Words for a change that can no longer be decided.
_ENDED = {
    PlannedStatus.REVERTED: "was applied and reverted",
    PlannedStatus.KEPT: "was applied and is kept",
    PlannedStatus.CANCELLED: "was cancelled",
    PlannedStatus.EXPIRED: "has expired",
    PlannedStatus.FAILED: "could not be applied at its time",
}


@transaction.atomic
def draft_change(
    edits: Sequence[tuple[UUID, QuotaEdit]],
    *,
    reason: str,
    apply_at: datetime | None,
    revert_after_s: int | None,
    actor: Actor,
    now: datetime,
) -> PlannedChange:
    """Store a draft of changes to several quotas. Nothing is changed yet.

    Raises NotFound for a quota that the actor cannot see, Forbidden for one of which the actor may
    change no setting, and InvalidRequest for an invalid combination of edits.
    """
    reason = clean_name(reason, field="reason", length_max=REASON_LENGTH_MAX)
    _refuse_times(apply_at, revert_after_s, now)
    if not 1 <= len(edits) <= EDITS_MAX:
        raise InvalidRequest(
            f"Give 1 to {EDITS_MAX} edits.", errors=[FieldError("/edits", "are none or too many")]
        )
    quotas = visible(
        actor,
        Quota.objects.select_related("node__parent", "pool"),
        Permission.VIEW_TREE,
        path_field="node__path",
    ).in_bulk([quota_id for quota_id, _ in edits])
    seen: set[UUID] = set()
    for place, (quota_id, edit) in enumerate(edits):
        pointer = f"/edits/{place}"
        if quota_id not in quotas:
            raise NotFound(f"The quota of edit {place} does not exist, or you may not see it.")
        if quota_id in seen or not edit:
            raise InvalidRequest(
                "Every edit must set something, and no quota may be edited twice.",
                errors=[FieldError(pointer, "sets nothing, or its quota is edited twice")],
            )
        seen.add(quota_id)
        require_edit(actor, quotas[quota_id].node, edit)
    if len({quota.node.organization_id for quota in quotas.values()}) > 1:
        raise InvalidRequest(
            "A planned change cannot span several organizations. Draft one for each.",
            errors=[FieldError("/edits", "are of several organizations")],
        )
    planned = PlannedChange.objects.create(
        node=_common_node([quota.node for quota in quotas.values()]),
        reason=reason,
        created_by=actor.user,
        created_at=now,
        expires_at=apply_at or now + DRAFTED_FOR,
        apply_at=apply_at,
        revert_after_s=revert_after_s,
    )
    PlannedEdit.objects.bulk_create(
        PlannedEdit(
            planned=planned,
            quota=quotas[quota_id],
            values=dict(edit),
            before=values_of(quotas[quota_id]),
        )
        for quota_id, edit in edits
    )
    _note(planned, "drafted", actor=actor, now=now, edits=len(edits))
    _ask_for_approval(planned, actor=actor, now=now)
    return planned


def _ask_for_approval(planned: PlannedChange, *, actor: Actor, now: datetime) -> None:
    """Tell those who may apply a draft, unless its author may."""
    edits = edits_of(planned)
    if may_apply(actor, planned, edits):
        return
    # The guarantee of a node is a matter of its parent.
    is_of_itself = any(edit.quota.node_id == planned.node_id for edit in edits)
    path = parent_path(planned.node) if is_of_itself else planned.node.path
    request = request_of(planned)
    tell_deciders(request, Permission.MANAGE_QUOTA, path, at=now, deadline=planned.expires_at)


def families_of(planned: PlannedChange, *, is_locked: bool) -> Iterator[Family]:
    """Yield the quotas around its edits, one family for each pool, locked in order of pools."""
    top = planned.node.parent or planned.node
    pools = planned.edits.order_by("quota__pool").values_list("quota__pool", flat=True).distinct()
    for pool in list(pools):
        yield family_below(top, pool, is_locked=is_locked)


def family_below(top: Node, pool_id: UUID, *, is_locked: bool) -> Family:
    """Return the quotas of `top` and below it in a pool, locked or not."""
    if is_locked:
        return Family(lock_quotas(top, pool_id))
    found = Quota.objects.select_related("node", "pool").filter(
        under([top.path], "node__path"), pool=pool_id
    )
    return Family(found.order_by("node__path"))


def edits_to_make(planned: PlannedChange) -> dict[UUID, QuotaEdit]:
    """Return the edits by quota."""
    return {pk: edit_of(values) for pk, values in planned.edits.values_list("quota_id", "values")}


def was_changed(edit: PlannedEdit, *, is_applied: bool) -> bool:
    """Return whether the quota's settings differ from the expected ones.

    These are all settings `before`, or for an applied change those that it set. Settings are
    compared, not versions. A version also counts new values of a percentage after a change of the
    parent, which nobody gave this quota.
    """
    present = _as_given(values_of(edit.quota))
    if is_applied:
        return any(present.get(name) != value for name, value in edit.values.items())
    return present != _as_given(edit.before)


def trial_of(planned: PlannedChange) -> tuple[list[tuple[Quota, dict[str, Any]]], str]:
    """Return the quotas as they would be, each with its present settings, and the refusal or "".

    Nothing is written.
    """
    return try_edits(edits_to_make(planned), families_of(planned, is_locked=False))


def try_edits(
    edits: Mapping[UUID, QuotaEdit], families: Iterable[Family]
) -> tuple[list[tuple[Quota, dict[str, Any]]], str]:
    """Return what `trial_of` does, for edits of the quotas of these families."""
    found: list[tuple[Quota, dict[str, Any]]] = []
    for family in families:
        before = {quota.pk: values_of(quota) for quota in family.by_node.values()}
        try:
            changed = settle_together(edits, family)
        except Conflict as refusal:
            return [], refusal.detail
        found += [(quota, before[quota.pk]) for quota in changed]
    return found, ""


def apply_planned(planned_id: UUID, *, if_match: str, actor: Actor, now: datetime) -> PlannedChange:
    """Apply a draft now, or schedule it for its time.

    Raises NotFound, Forbidden, PreconditionFailed unless `if_match` is the present ETag, and
    Conflict if it is no longer a draft. Raises EnvelopeBroken or LendsTooMuch if it is applied now,
    and SecondPersonNeeded in both cases.
    """
    for edit in edits_of(planned_by_id(actor, planned_id)):
        require_edit(actor, edit.quota.node, QuotaEdit())
    with named_refusals(), transaction.atomic():
        planned = _locked(planned_id)
        families = list(families_of(planned, is_locked=True))
        if planned.status != PlannedStatus.DRAFT:
            raise Conflict(_decided_already(planned))
        if if_match != etag_of_planned(planned):
            raise PreconditionFailed(
                "The change or a related quota has changed since you looked. Compare the change "
                "with the present settings, preview it again, and send the new ETag."
            )
        if planned.expires_at <= now:
            raise Conflict("This draft has expired. Draft the change again.")
        write = Write("quota_change.apply", {"planned": str(planned_id)}, planned.reason)
        with guarded(
            planned.node.organization, write, actor=actor, now=now, begins_at=planned.apply_at
        ) as guard:
            planned.decided_by, planned.decided_at = actor.user, now
            planned.is_decided = was_decided()
            if planned.apply_at is None:
                _apply(planned, families, actor=actor, now=now)
            else:
                guard.try_out(lambda: _make_edits(planned, actor=actor, now=now))
                _remember_base(planned, families)
                edits = edits_to_make(planned)
                for family in families:
                    require_rights(actor, edit_together(edits, family))
                planned.status = PlannedStatus.SCHEDULED
                _save(planned)
                _note(planned, "scheduled", actor=actor, now=now)
    return planned


def _decided_already(planned: PlannedChange) -> str:
    """Return why it can no longer be applied, and what to do instead."""
    if planned.status == PlannedStatus.SCHEDULED:
        return (
            f"This change is already scheduled for {planned.apply_at:%Y-%m-%d %H:%M:%S} UTC. To "
            "apply it sooner, cancel it and draft a new one."
        )
    if planned.status == PlannedStatus.APPLIED:
        return (
            f"This change was already applied at {planned.applied_at:%Y-%m-%d %H:%M:%S} UTC. "
            "To change these quotas again, draft a new one."
        )
    ended = _ENDED[PlannedStatus(planned.status)]
    return f"This change {ended}, so it cannot be applied. Draft a new one."


@transaction.atomic
def cancel_planned(planned_id: UUID, *, actor: Actor, now: datetime) -> PlannedChange:
    """Cancel a draft or a scheduled change, or the planned revert of an applied change.

    The latter keeps the change. A kept guarantee, weight or borrow limit needs the right on the
    parent, because its approval was for a time. Raises NotFound, Forbidden, SecondPersonNeeded for
    a kept change, and Conflict if there is nothing to cancel.
    """
    require_management(actor, planned_by_id(actor, planned_id))
    planned = _locked(planned_id)
    if planned.status in _CANCELLABLE:
        _end(planned, PlannedStatus.CANCELLED, actor=actor, now=now)
    elif planned.status == PlannedStatus.APPLIED and planned.revert_at is not None:
        for node in nodes_with_edits_of_the_parent(edits_of(planned)):
            require_parents_right(actor, node, "keep a change that was approved for a time")
        note = f"{actor.user.login} decided to keep it."
        write = Write("quota_change.keep", {"planned": str(planned_id)}, planned.reason)
        families = list(families_of(planned, is_locked=True))
        with guarded(planned.node.organization, write, actor=actor, now=now) as guard:
            # Who approved the change approved it for a time: keeping moves as much as its revert.
            # The guard sees no planned revert any more, which would hide that.
            _end(planned, PlannedStatus.KEPT, note, actor=actor, now=now)
            guard.try_out(lambda: _make_back(planned, families, now=now))
    else:
        raise Conflict(
            f"This change is {planned.status}. Only a draft, a scheduled change, or the planned "
            "revert of an applied one can be cancelled. To undo it, draft the opposite change."
        )
    return planned


def carry_out_due(*, now: datetime, limit: int = ROUND_MAX) -> int:
    """Expire at most `limit` drafts, then apply and revert at most `limit` due changes.

    Return how many. The earliest due change comes first. At one moment, reverts come first, because
    they may make room. Of these the change that was applied last comes first, because each finds
    the quotas as it left them. Safe to run twice at once: each change is handled in its own
    transaction by the holder of its lock.
    """
    rows = PlannedChange.objects
    expired = rows.filter(status=PlannedStatus.DRAFT, expires_at__lte=now).order_by("expires_at")
    due = rows.filter(status=PlannedStatus.SCHEDULED, apply_at__lte=now).order_by("apply_at", "pk")
    over = rows.filter(status=PlannedStatus.APPLIED, revert_at__lte=now).order_by(
        "revert_at", "-applied_at", "-pk"
    )
    done = sum([_expire(pk, now) for pk in list(expired.values_list("pk", flat=True)[:limit])])
    changes = [(at, 0, pk) for pk, at in over.values_list("pk", "revert_at")[:limit]]
    changes += [(at, 1, pk) for pk, at in due.values_list("pk", "apply_at")[:limit]]
    for _, is_new, pk in sorted(changes, key=lambda change: change[:2])[:limit]:
        done += (_apply_scheduled if is_new else _take_back)(pk, now)
    return done


def locked_open_changes(node: Node) -> list[PlannedChange]:
    """Return the open changes that set quotas of the node or below it, locked.

    They are locked before the quotas, as when a change is applied.
    """
    is_open = Q(status__in=_CANCELLABLE) | Q(status=PlannedStatus.APPLIED, revert_at__isnull=False)
    sets = PlannedEdit.objects.filter(
        under([node.path], "quota__node__path"), planned=OuterRef("pk")
    )
    rows = with_names().filter(is_open, Exists(sets)).order_by("pk")
    return list(rows.select_for_update(of=("self",)))


def follow_move(changes: Sequence[PlannedChange]) -> None:
    """Update `node` of these changes after a move. Earlier previews of them become stale."""
    for planned in changes:
        planned.node = _common_node([edit.quota.node for edit in edits_of(planned)])
        _save(planned)


@transaction.atomic
def _expire(planned_id: UUID, now: datetime) -> bool:
    planned = _locked_if(planned_id, PlannedStatus.DRAFT)
    if planned is None:
        return False
    _end(planned, PlannedStatus.EXPIRED, now=now)
    return True


@transaction.atomic
def _apply_scheduled(planned_id: UUID, now: datetime) -> bool:
    planned = _locked_if(planned_id, PlannedStatus.SCHEDULED)
    if planned is None:
        return False
    assert planned.decided_by is not None
    try:
        with named_refusals(), transaction.atomic():
            families = list(families_of(planned, is_locked=True))
            edits = edits_of(planned)
            changed = [edit for edit in edits if was_changed(edit, is_applied=False)]
            if changed:
                raise Conflict(f"{_names(changed)} has changed since this change was decided.")
            actor = actor_of(planned.decided_by)
            for edit in edits:
                require_edit(actor, edit.quota.node, QuotaEdit())
            with _guarded_again(planned, actor, now):
                _apply(planned, families, actor=actor, now=now)
    except PortalError as refusal:
        planned = _locked(planned_id)
        _end(planned, PlannedStatus.FAILED, refusal.detail, now=now)
    return True


@transaction.atomic
def _take_back(planned_id: UUID, now: datetime) -> bool:
    planned = _locked_if(planned_id, PlannedStatus.APPLIED)
    if planned is None:
        return False
    try:
        with named_refusals(), transaction.atomic():
            families = list(families_of(planned, is_locked=True))
            edits = edits_of(planned)
            changed = [edit for edit in edits if was_changed(edit, is_applied=True)]
            if changed:
                raise Conflict(f"{_names(changed)} has changed since, so nothing was reverted.")
            _make_back(planned, families, now=now)
            _end(planned, PlannedStatus.REVERTED, now=now)
    except PortalError as refusal:
        planned = _locked(planned_id)
        _end(planned, PlannedStatus.KEPT, refusal.detail, now=now)
    return True


def _guarded_again(
    planned: PlannedChange, actor: Actor, now: datetime
) -> AbstractContextManager[object]:
    """Return the guard of a scheduled change that is due, unless a second person approved it.

    Other changes of the same person, and jobs that started, came since it was decided.
    """
    organization = planned.node.organization
    if planned.is_decided:
        return decided()
    write = Write("quota_change.apply", {"planned": str(planned.pk)}, planned.reason)
    return guarded(organization, write, actor=actor, now=now)


def _make_back(planned: PlannedChange, families: Sequence[Family], *, now: datetime) -> None:
    """Give the quotas, which are locked, the settings that an applied change replaced."""
    back = {edit.quota_id: _replaced(edit) for edit in edits_of(planned)}
    reason = f"Reverted as planned: {planned.reason}"[:REASON_LENGTH_MAX]
    for family in families:
        change_together(back, family, actor=None, reason=reason, now=now)


def check_scheduled(
    guard: Guard, planned: PlannedChange | None, *, actor: Actor, now: datetime
) -> None:
    """Check a change that is made later by its effect on the present quotas, if it is one."""
    if planned is not None and planned.status == PlannedStatus.SCHEDULED:
        guard.try_out(lambda: _make_edits(planned, actor=actor, now=now))


def _make_edits(planned: PlannedChange, *, actor: Actor, now: datetime) -> None:
    """Change the quotas alone, to see the effect."""
    edits = edits_to_make(planned)
    for family in families_of(planned, is_locked=True):
        change_together(edits, family, actor=actor, reason=planned.reason, now=now)


def _apply(
    planned: PlannedChange, families: Sequence[Family], *, actor: Actor, now: datetime
) -> None:
    """Make the edits of a change whose quotas are locked."""
    _remember_base(planned, families)
    edits = edits_to_make(planned)
    for family in families:
        change_together(edits, family, actor=actor, reason=planned.reason, now=now)
    planned.status = PlannedStatus.APPLIED
    planned.applied_at = now
    if planned.revert_after_s is not None:
        planned.revert_at = now + timedelta(seconds=planned.revert_after_s)
    _save(planned)
    _note(planned, "applied", actor=actor, now=now)


def _remember_base(planned: PlannedChange, families: Sequence[Family]) -> None:
    """Store the present settings as the base of the decision."""
    quotas = {quota.pk: quota for family in families for quota in family.by_node.values()}
    stored = list(planned.edits.all())
    for edit in stored:
        edit.before = values_of(quotas[edit.quota_id])
    PlannedEdit.objects.bulk_update(stored, ["before"])


def _replaced(edit: PlannedEdit) -> QuotaEdit:
    """Return the settings that an applied edit replaced: only those that it set."""
    sets_guarantee = not _GUARANTEES.isdisjoint(edit.values)
    before = _as_given(edit.before).items()
    found = {
        name: value
        for name, value in before
        if name in edit.values or (sets_guarantee and name in _GUARANTEES)
    }
    return cast(QuotaEdit, found)


def _as_given(values: Mapping[str, Any]) -> QuotaEdit:
    """Return all stored settings as an edit that restores them.

    The guarantee is in GPUs or in percent, as it was given.
    """
    edit = QuotaEdit(
        borrow_limit_mgpu=values["borrow_limit_mgpu"],
        lend_limit_mgpu=values["lend_limit_mgpu"],
        weight=values["weight"],
    )
    if values["guaranteed_percent"] is None:
        edit["guaranteed_mgpu"] = values["guaranteed_mgpu"]
    else:
        edit["guaranteed_bp"] = int(values["guaranteed_percent"].replace(".", ""))
    return edit


def _refuse_times(apply_at: datetime | None, revert_after_s: int | None, now: datetime) -> None:
    if apply_at is not None and not now < apply_at <= now + APPLIED_WITHIN:
        raise InvalidRequest(
            "apply_at must be in the future, within a year. Omit it to apply the change at once.",
            errors=[FieldError("/apply_at", "is past or more than a year ahead")],
        )
    if revert_after_s is not None and not (
        REVERT_AFTER_S_MIN <= revert_after_s <= REVERT_AFTER_S_MAX
    ):
        raise InvalidRequest(
            f"revert_after_s must be from {REVERT_AFTER_S_MIN} to {REVERT_AFTER_S_MAX}.",
            errors=[FieldError("/revert_after_s", "is out of range")],
        )


def _common_node(nodes: Sequence[Node]) -> Node:
    """Return the lowest node that all of `nodes`, of one organization, are at or below."""
    steps = [node.path.rstrip("/").split("/") for node in nodes]
    common: list[str] = []
    for level in zip(*steps, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return Node.objects.select_related("organization").get(path="/".join(common) + "/")


def _names(edits: Sequence[PlannedEdit]) -> str:
    """Return the first of these quotas, for a sentence."""
    first = f"{edits[0].quota.node.display_path} in {edits[0].quota.pool.name}"
    return first if len(edits) == 1 else f"{first}, and {len(edits) - 1} more of its quotas,"


def _locked(planned_id: UUID) -> PlannedChange:
    return with_names().select_for_update(of=("self",)).get(pk=planned_id)


def _locked_if(planned_id: UUID, status: PlannedStatus) -> PlannedChange | None:
    """Return the change if it is not locked and still has this status."""
    free = with_names().select_for_update(of=("self",), skip_locked=True)
    return free.filter(pk=planned_id, status=status).first()


def _end(
    planned: PlannedChange,
    status: PlannedStatus,
    note: str = "",
    *,
    actor: Actor | None = None,
    now: datetime,
) -> None:
    planned.status, planned.note, planned.ended_at = status, note, now
    _save(planned)
    _note(planned, status.value, actor=actor, now=now, note=note)


def _save(planned: PlannedChange) -> None:
    planned.version += 1
    planned.save()


def _note(
    planned: PlannedChange, act: str, *, actor: Actor | None = None, now: datetime, **detail: Any
) -> None:
    """Record an act in the audit log, and send a hint to open pages.

    Auditors and open pages include users who may not read drafts. So before the change is history,
    the event has no content, and the hint has no id.
    """
    is_history = planned.status in IN_HISTORY
    record(
        action=f"quota_change.{act}",
        subject_kind="quota_change",
        subject_id=planned.pk,
        now=now,
        actor_id=None if actor is None else actor.user.pk,
        actor="system" if actor is None else actor.user.login,
        organization_id=planned.node.organization_id,
        node_path=planned.node.path,
        detail={"reason": planned.reason, **detail} if is_history else {},
        request_id=current_request_id(),
    )
    publish(
        "quotas",
        ids=[planned.pk] if is_history else (),
        organization_id=planned.node.organization_id,
    )
    if act != "drafted":
        by_id = None if actor is None else actor.user.pk
        tell_requester(request_of(planned), act, planned.note, by_id=by_id, at=now)
