"""Imports a tree file: previews the changes, and applies exactly the previewed ones.

The preview applies the changes, too, and rolls back. So it finds every refusal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from approvals.operations import add_operation
from bulk.trials import rolled_back
from jobs.actions.archiving import archive
from jobs.actions.moving import move
from primitives.clock import Clock, SystemClock
from primitives.errors import FieldError, InvalidRequest, PortalError, PreconditionFailed
from quotas.administration import set_quotas
from quotas.guarding import SecondPersonNeeded, Write, guarded
from tenants.access import Actor, actor_of
from tenants.audit_trail import record_act
from tenants.bulk_changes import (
    NewInvitation,
    NewNode,
    NewRole,
    Refusals,
    create_nodes,
    grant_roles,
    invite_people,
)
from tenants.granting import GrantChange, change_grant, revoke_role
from tenants.invitations import Invited, withdraw
from tenants.membership import lock_administrators
from tenants.models import Node, NodeKind
from tenants.roles import Role
from tenants.structure import lock_tree, rename_node
from treefile.comparing import Action, Change, Comparison, Options, compare
from treefile.present import accounts_named, node_of_file, present_tree
from treefile.reading import ReadFile, read
from treefile.rows import Format, LineError

#: The most changes that take several statements each: all but new nodes, roles and invitations, and
#: quotas.
SINGLE_MAX = 1_000
#: The most errors of an answer.
ERRORS_MAX = 200
#: The longest file that waits for a second person.
WAITING_LENGTH_MAX = 300_000
#: The name of an import among the writes that a second person may approve.
OPERATION = "tree.import"
#: The reason in the history of quotas.
_REASON = "Imported from a tree file"


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """A file to import at and below a node."""

    node_id: UUID
    text: str
    form: Format
    options: Options = field(default_factory=Options)


def preview_import(asked: ImportRequest, *, actor: Actor, clock: Clock) -> Comparison:
    """Return what `apply_import` would change, and all errors by line. Nothing is changed.

    It says where the import needs a second person. Raises NotFound, and Forbidden without
    manage_members on the node.
    """
    file = _read(asked, actor)
    with rolled_back():
        application = _compared(asked, file, actor, clock, is_preview=True)
        found = application.found
        if not found.errors:
            try:
                with application.guarded(asked):
                    application.run()
            except SecondPersonNeeded as needed:
                found.second_person = needed.why
        return found


def import_into_new(asked: ImportRequest, *, actor: Actor, clock: Clock) -> Comparison:
    """Apply a file to an organization that this transaction created, and return the changes.

    Nobody else can change it yet, so no preview is compared. Must run in a transaction. The caller
    rolls back where the result has errors. Raises NotFound and Forbidden.
    """
    application = _compared(asked, _read(asked, actor), actor, clock)
    if not application.found.errors:
        application.run()
    return application.found


def apply_import(asked: ImportRequest, *, digest: str, actor: Actor, clock: Clock) -> Comparison:
    """Apply the changes of the preview with this digest, all in one transaction.

    Raises PreconditionFailed where the changes are others by now, InvalidRequest with the errors by
    line, NotFound and Forbidden. Raises SecondPersonNeeded where the file as a whole needs a second
    person: nothing of it is applied before.
    """
    file = _read(asked, actor)
    with transaction.atomic():
        return _applied(asked, file, digest, actor, clock)


def _applied(
    asked: ImportRequest, file: ReadFile, digest: str, actor: Actor, clock: Clock
) -> Comparison:
    application = _compared(asked, file, actor, clock)
    found = application.found
    if not found.errors:
        if found.digest != digest:
            raise PreconditionFailed(
                "These are not the changes of that preview: the tree, the file or the options "
                "changed. Preview the file again."
            )
        with application.guarded(asked):
            application.run()
            refuse_errors(found, field="/text")
    refuse_errors(found, field="/text")
    return found


def refuse_errors(found: Comparison, *, field: str) -> None:
    """Raise InvalidRequest with the errors by line, if there are any, at `field`."""
    if found.errors:
        raise InvalidRequest(
            f"Nothing was imported. Line {found.errors[0].line}: {found.errors[0].sentence}",
            errors=[
                FieldError(field, f"line {error.line}: {error.sentence}")
                for error in found.errors[:ERRORS_MAX]
            ],
        )


def _read(asked: ImportRequest, actor: Actor) -> ReadFile:
    """Read the file of an actor who may import it, before a transaction begins."""
    node_of_file(actor, asked.node_id)
    return read(asked.text, asked.form)


def _compared(
    asked: ImportRequest,
    read_file: ReadFile,
    actor: Actor,
    clock: Clock,
    *,
    is_preview: bool = False,
) -> _Application:
    node = node_of_file(actor, asked.node_id)
    file, errors = read_file
    # No other import, move or archiving comes between the comparison and the changes.
    lock_tree(node.organization_id)
    # The rights may have changed while this waited.
    actor = actor_of(actor.user, actor.scopes, token=actor.token)
    node = node_of_file(actor, asked.node_id)
    accounts = accounts_named(actor, node.organization, {row.user for row in file.members})
    found = compare(present_tree(node), file, accounts, asked.options)
    found.errors = sorted([*errors, *found.errors], key=lambda error: error.line)
    _refuse_too_many(found)
    return _Application(found, node, actor, clock, is_preview=is_preview)


def _refuse_too_many(found: Comparison) -> None:
    bulk = (
        *(Action.NODE_CREATED, Action.ROLE_GRANTED, Action.PERSON_INVITED),
        *(Action.QUOTA_CREATED, Action.QUOTA_CHANGED),
    )
    single = sum(change.action not in bulk for change in found.changes)
    if single > SINGLE_MAX:
        found.errors.append(
            LineError(
                0,
                f"An import moves, renames, archives, revokes and changes at most {SINGLE_MAX:,} "
                "together. Split the file.",
            )
        )


@contextmanager
def _guarded(
    asked: ImportRequest, found: Comparison, top: Node, actor: Actor, now: datetime
) -> Iterator[None]:
    arguments = {
        "node": str(asked.node_id),
        "text": asked.text,
        "format": asked.form.value,
        "archive_missing": asked.options.archive_missing,
        "revoke_missing": asked.options.revoke_missing,
        "digest": found.digest,
    }
    try:
        with guarded(top.organization, Write(OPERATION, arguments, _REASON), actor=actor, now=now):
            yield
    except SecondPersonNeeded as needed:
        if len(asked.text) > WAITING_LENGTH_MAX and not found.errors:
            raise InvalidRequest(
                f"{needed.why}, so a second person decides. A file that waits for that has at "
                f"most {WAITING_LENGTH_MAX:,} characters: split it.",
                errors=[FieldError("/text", "is too long to wait for a second person")],
            ) from None
        raise


def apply_again(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    """Apply a file that waited for a second person. Raises as `apply_import`."""
    asked = ImportRequest(
        UUID(given["node"]),
        given["text"],
        Format(given["format"]),
        Options(given["archive_missing"], given["revoke_missing"]),
    )
    # Moves read the clock themselves, after their locks.
    return apply_import(asked, digest=given["digest"], actor=actor, clock=SystemClock())


def register() -> None:
    """Add imports to the writes that a second person may approve."""
    add_operation(OPERATION, apply_again)


class _Application:
    """Applies changes in an order in which each finds what it needs.

    A preview, which is rolled back, locks no users.
    """

    def __init__(
        self, found: Comparison, top: Node, actor: Actor, clock: Clock, *, is_preview: bool
    ) -> None:
        self.found, self._top, self._actor, self._clock = found, top, actor, clock
        self._is_preview = is_preview
        self._now: datetime = clock.now()
        self._by_action: defaultdict[Action, list[Change]] = defaultdict(list)
        for change in found.changes:
            self._by_action[change.action].append(change)

    def guarded(self, asked: ImportRequest) -> AbstractContextManager[object]:
        """Return the guard of the whole file, as one write that a second person may approve.

        Raises InvalidRequest at its end where such a file is too long to wait.
        """
        return _guarded(asked, self.found, self._top, self._actor, self._now)

    def run(self) -> None:
        """Apply nodes by depth, then names, quotas, roles and invitations, then archivings.

        Refusals are added to the errors.
        """
        if self.found.changes:
            self._record()
        if self._by_action[Action.ROLE_GRANTED] and not self._is_preview:
            # Before the locks of users, as everywhere.
            lock_administrators(self._top.organization)
        for created, moved in self._levels():
            self._create(created)
            self._one_by_one(moved, self._move)
        self._one_by_one(self._by_action[Action.NODE_RENAMED], self._rename)
        self._set_quotas()
        self._one_by_one(self._by_action[Action.ROLE_EXPIRY_CHANGED], self._change_expiry)
        self._grant(self._by_action[Action.ROLE_GRANTED])
        self._one_by_one(self._by_action[Action.ROLE_REVOKED], self._revoke)
        self._invite(self._by_action[Action.PERSON_INVITED])
        self._one_by_one(self._by_action[Action.INVITATION_WITHDRAWN], self._withdraw)
        self._one_by_one(self._by_action[Action.NODE_ARCHIVED], self._archive)
        self.found.errors.sort(key=lambda error: error.line)

    def _record(self) -> None:
        counts = {action.value: len(changes) for action, changes in self._by_action.items()}
        record_act(
            actor=self._actor,
            action="tree_imported",
            subject_kind=self._top.kind,
            subject_id=self._top.pk,
            node=self._top,
            now=self._now,
            detail=counts,
        )

    def _set_quotas(self) -> None:
        """Set all quotas of each pool together, so that rules are checked on the result only."""
        by_pool: defaultdict[str, list[Change]] = defaultdict(list)
        for action in (Action.QUOTA_CREATED, Action.QUOTA_CHANGED):
            for change in self._by_action[action]:
                by_pool[change.pool].append(change)
        for pool, changes in by_pool.items():
            paths = [f"{change.path}/" for change in changes]
            nodes = dict(Node.objects.filter(path__in=paths).values_list("path", "pk"))
            try:
                set_quotas(
                    {nodes[path]: each.edit for path, each in zip(paths, changes, strict=True)},
                    pool,
                    top=self._top,
                    actor=self._actor,
                    reason=_REASON,
                    now=self._now,
                )
            except PortalError as error:
                # Errors of quotas name the node that they are about.
                at = {change.path: change.line for change in changes}
                line = at.get(str(error.data.get("node", "")), changes[0].line)
                self.found.errors.append(LineError(line, error.detail))

    def _levels(self) -> Iterator[tuple[list[Change], list[Change]]]:
        created, moved = self._by_action[Action.NODE_CREATED], self._by_action[Action.NODE_MOVED]
        depths = sorted({change.path.count("/") for change in (*created, *moved)})
        for depth in depths:
            yield (
                [change for change in created if change.path.count("/") == depth],
                [change for change in moved if change.path.count("/") == depth],
            )

    def _create(self, changes: Sequence[Change]) -> None:
        wanted = [
            NewNode(NodeKind(change.kind), f"{change.path}/", change.after) for change in changes
        ]
        self._note(changes, create_nodes(actor=self._actor, wanted=wanted, now=self._now))

    def _grant(self, changes: Sequence[Change]) -> None:
        wanted = [
            NewRole(change.user, Role(change.role), f"{change.path}/", change.expires_at)
            for change in changes
        ]
        refusals = grant_roles(
            actor=self._actor, wanted=wanted, now=self._now, locks_users=not self._is_preview
        )
        self._note(changes, refusals)

    def _invite(self, changes: Sequence[Change]) -> None:
        wanted = [
            NewInvitation(
                f"{change.path}/",
                Invited(
                    email=change.user,
                    role=Role(change.role),
                    name=change.after or None,
                    role_expires_at=change.expires_at,
                ),
            )
            for change in changes
        ]
        self._note(changes, invite_people(actor=self._actor, wanted=wanted, now=self._now))

    def _note(self, changes: Sequence[Change], refusals: Refusals) -> None:
        for index, error in refusals.items():
            self.found.errors.append(LineError(changes[index].line, error.detail))

    def _one_by_one(self, changes: Sequence[Change], act: Callable[[UUID, Change], object]) -> None:
        for change in changes:
            assert change.id is not None
            try:
                with transaction.atomic():
                    act(change.id, change)
            except PortalError as error:
                where = "" if change.line else f"{change.path}: "
                self.found.errors.append(LineError(change.line, where + error.detail))

    def _move(self, node_id: UUID, change: Change) -> None:
        parent = change.after.rpartition("/")[0]
        move(node_id, parent, actor=self._actor, clock=self._clock)

    def _rename(self, node_id: UUID, change: Change) -> None:
        rename_node(
            actor=self._actor,
            node_id=node_id,
            kind=NodeKind(change.kind),
            name=change.after,
            now=self._now,
        )

    def _archive(self, node_id: UUID, _: Change) -> None:
        archive(node_id, waiting=None, running=None, actor=self._actor, now=self._now)

    def _change_expiry(self, grant_id: UUID, change: Change) -> None:
        change_grant(
            actor=self._actor,
            grant_id=grant_id,
            change=GrantChange(sets_expiry=True, expires_at=change.expires_at),
            if_version=change.version,
            now=self._now,
        )

    def _revoke(self, grant_id: UUID, _: Change) -> None:
        revoke_role(actor=self._actor, grant_id=grant_id, now=self._now)

    def _withdraw(self, invitation_id: UUID, _: Change) -> None:
        withdraw(actor=self._actor, invitation_id=invitation_id, now=self._now)
