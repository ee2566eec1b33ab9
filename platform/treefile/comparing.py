"""Compares a tree file with the present tree, without a query."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import cast
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from quotas.administration import QuotaEdit
from tenants.models import Node, NodeKind
from treefile.present import Account, PresentQuota, PresentTree
from treefile.quota_cells import cells_of
from treefile.rows import LineError, MemberRow, NodeRow, QuotaRow, TreeFile, moment_text

#: The most moves of an import. Each checks quotas and all nodes below.
MOVES_MAX = 100
#: The length of the column of an address.
_ADDRESS_LENGTH_MAX = 254


class Action(StrEnum):
    """The kind of a change."""

    NODE_CREATED = "node_created"
    NODE_RENAMED = "node_renamed"
    NODE_MOVED = "node_moved"
    NODE_ARCHIVED = "node_archived"
    ROLE_GRANTED = "role_granted"
    ROLE_EXPIRY_CHANGED = "role_expiry_changed"
    ROLE_REVOKED = "role_revoked"
    PERSON_INVITED = "person_invited"
    INVITATION_WITHDRAWN = "invitation_withdrawn"
    QUOTA_CREATED = "quota_created"
    QUOTA_CHANGED = "quota_changed"


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between file and tree. `line` is 0 for a row that the file lacks.

    `path` is the path after the import. `before` and `after` are the changed value.
    """

    action: Action
    line: int
    path: str
    kind: str = ""
    user: str = ""
    role: str = ""
    pool: str = ""
    before: str = ""
    after: str = ""
    #: The changed row, and its version where it has one.
    id: UUID | None = None
    version: int = 0
    expires_at: datetime | None = None
    #: The sorted nodes that are archived together with this one.
    below: tuple[UUID, ...] = ()
    #: The settings of a quota that the file gives.
    edit: QuotaEdit = field(default_factory=QuotaEdit)

    @property
    def nodes_below(self) -> int:
        """Return the number of nodes that are archived together with this one."""
        return len(self.below)


@dataclass(frozen=True, slots=True)
class Options:
    """The fate of rows that the file lacks. By default, nothing is archived or revoked."""

    archive_missing: bool = False
    revoke_missing: bool = False


@dataclass(slots=True)
class Comparison:
    """All changes in the order of their application, and the errors by line.

    `missing_nodes` and `missing_roles` count what the file lacks, and what therefore stays.
    `second_person` says why the file needs a second person; "" if it does not.
    """

    changes: list[Change] = field(default_factory=list)
    errors: list[LineError] = field(default_factory=list)
    missing_nodes: int = 0
    missing_roles: int = 0
    second_person: str = ""

    @property
    def digest(self) -> str:
        """The identity of all changes: two equal previews have the same."""
        return hashlib.sha256("\n".join(map(repr, self.changes)).encode()).hexdigest()


def compare(
    tree: PresentTree,
    file: TreeFile,
    accounts: Mapping[str, Sequence[Account]],
    options: Options,
) -> Comparison:
    """Return the changes that make the tree what the file says."""
    found = Comparison()
    nodes = _NodeComparison(tree, file, found)
    paths = nodes.compare(options)
    if paths is None:
        return found
    rows = [row for row in file.members if row.path not in nodes.refused]
    _MemberComparison(tree, paths, accounts, found).compare(rows, options)
    quotas = [row for row in file.quotas if row.path not in nodes.refused]
    _QuotaComparison(tree, paths, found).compare(quotas)
    return found


class _NodeComparison:
    """Compares nodes, parents first, so that each node sees the moves above it."""

    def __init__(self, tree: PresentTree, file: TreeFile, found: Comparison) -> None:
        self._top = tree.top.display_path
        self._rows = sorted(file.nodes, key=lambda row: (row.path.count("/"), row.path))
        self._nodes = {node.pk: node for node in tree.nodes}
        #: Paths of present nodes after the moves so far, without the last slash.
        self._paths = {node.pk: node.display_path for node in tree.nodes}
        self._at = {path: pk for pk, path in self._paths.items()}
        self._found = found
        self._moves = 0
        #: Paths of refused rows.
        self.refused: set[str] = set()

    def compare(self, options: Options) -> dict[str, UUID | None] | None:
        """Add the changes of nodes. Return the nodes by path after these; None: a new one.

        Return None for more than `MOVES_MAX` moves: nothing after these is compared.
        """
        named: set[UUID] = set()
        created: set[str] = set()
        for row in self._rows:
            problem = self._problem(row, created)
            if problem:
                self._found.errors.append(LineError(row.line, problem))
                self.refused.add(row.path)
                continue
            pk = self._at.get(row.path) if row.id is None else row.id
            if pk is None:
                self._add(Action.NODE_CREATED, row, after=row.name)
                created.add(row.path)
                continue
            named.add(pk)
            self._move_and_rename(row, self._nodes[pk])
            if self._moves > MOVES_MAX:
                sentence = f"An import moves at most {MOVES_MAX} nodes. Split the file."
                self._found.errors.append(LineError(row.line, sentence))
                return None
        self._archive_missing(named, options)
        return {**self._at, **dict.fromkeys(created)}

    def _problem(self, row: NodeRow, created: set[str]) -> str:
        """Return why the row cannot be compared, or ""."""
        pk = self._at.get(row.path)
        if row.path != self._top and not row.path.startswith(f"{self._top}/"):
            return f"{row.path} is not at or below {self._top}, which this import covers."
        if row.id is not None:
            if row.id not in self._nodes:
                return f"The id is of no node below {self._top}. Leave it empty for a new node."
            if pk not in (None, row.id):
                return f"{row.path} is another node. Correct the id, or leave it empty."
            pk = row.id
        if pk is None:
            if row.kind == NodeKind.ORGANIZATION:
                return "An import creates no organization. Create it first, then import below it."
            parent = row.path.rpartition("/")[0]
            if parent not in self._at and parent not in created:
                return f"The parent {parent} does not exist. Add a row for it."
            return ""
        node = self._nodes[pk]
        if node.archived_at is not None:
            return f"{node.display_path} is archived. Restore it, or remove this row."
        if node.kind != row.kind:
            return f"{node.display_path} is of the kind {node.kind}, which does not change."
        if row.path.rpartition("/")[2] != node.slug:
            return (
                f"The last part of a path does not change. Keep {node.slug}, and change the name."
            )
        return ""

    def _move_and_rename(self, row: NodeRow, node: Node) -> None:
        before = self._paths[node.pk]
        if row.path != before:
            self._moves += 1
            self._add(Action.NODE_MOVED, row, before=before, after=row.path, id=node.pk)
            self._rebase(before, row.path)
        if row.name != node.name:
            self._add(Action.NODE_RENAMED, row, before=node.name, after=row.name, id=node.pk)

    def _rebase(self, before: str, after: str) -> None:
        for pk, path in self._paths.items():
            if path == before or path.startswith(f"{before}/"):
                self._paths[pk] = after + path.removeprefix(before)
        self._at = {path: pk for pk, path in self._paths.items()}

    def _archive_missing(self, named: set[UUID], options: Options) -> None:
        missing = {
            self._paths[pk]: node
            for pk, node in self._nodes.items()
            if pk not in named and node.archived_at is None and self._paths[pk] != self._top
        }
        if not options.archive_missing:
            self._found.missing_nodes = len(missing)
            return
        below = {path: row.path for row in self._rows for path in _above(row.path)}
        archived: defaultdict[str, list[UUID]] = defaultdict(list)
        topmost: dict[str, str] = {}
        for path, node in sorted(missing.items()):
            parent = path.rpartition("/")[0]
            if path in below:
                sentence = f"{path}, which is above {below[path]}, is missing. Add a row for it."
                self._found.errors.append(LineError(0, sentence))
            topmost[path] = topmost.get(parent, path)
            archived[topmost[path]].append(node.pk)
        for path, (top, *others) in archived.items():
            self._found.changes.append(
                Change(
                    Action.NODE_ARCHIVED,
                    0,
                    path,
                    kind=missing[path].kind,
                    id=top,
                    below=tuple(sorted(others)),
                )
            )

    def _add(
        self, action: Action, row: NodeRow, *, before: str = "", after: str, id: UUID | None = None
    ) -> None:
        change = Change(
            action, row.line, row.path, kind=row.kind, before=before, after=after, id=id
        )
        self._found.changes.append(change)


def _above(path: str) -> list[str]:
    """Return the paths of all nodes above the one at `path`."""
    steps = path.split("/")
    return ["/".join(steps[:depth]) for depth in range(1, len(steps))]


class _MemberComparison:
    """Compares roles and invitations, by the nodes' paths after the import."""

    def __init__(
        self,
        tree: PresentTree,
        paths: Mapping[str, UUID | None],
        accounts: Mapping[str, Sequence[Account]],
        found: Comparison,
    ) -> None:
        archived = {node.pk for node in tree.nodes if node.archived_at is not None}
        self._paths = {path: pk for path, pk in paths.items() if pk not in archived}
        self._path_of = {pk: path for path, pk in self._paths.items() if pk is not None}
        self._grants = {(each.node, each.login, each.role): each for each in tree.grants}
        self._invitations = {(each.node, each.email.lower()): each for each in tree.invitations}
        self._open = {each.email.lower() for each in tree.invitations}
        self._accounts = accounts
        self._named: set[UUID] = set()
        #: Lines of earlier rows. Two rows of YAML may stand on one line.
        self._lines: dict[tuple[str, str, str], int] = {}
        self._invited: dict[str, int] = {}
        self._found = found

    def compare(self, rows: Sequence[MemberRow], options: Options) -> None:
        """Add the changes of members."""
        for row in rows:
            problem = self._compare(row)
            if problem:
                self._found.errors.append(LineError(row.line, problem))
        self._revoke_missing(options)

    def _compare(self, row: MemberRow) -> str:
        """Add the change of a row. Return why it cannot be compared, or ""."""
        if row.path not in self._paths:
            return f"There is no node {row.path}. Add a row for it, or correct the path."
        node = self._paths[row.path]
        found = self._accounts[row.user]
        grant = None if node is None else self._grants.get((node, row.user, row.role))
        if grant is not None:
            # Accounts of the platform are not visible to everybody who reads their grants.
            found = [Account(grant.login, grant.name)]
        if len(found) > 1:
            logins = ", ".join(account.login for account in found[:3])
            return f"Several accounts have this address: {logins}. Give one of these logins."
        if not found:
            return self._invite(row, node)
        (account,) = found
        if row.name not in ("", account.name):
            return f"The name of {account.login} does not change here. Leave it empty."
        return self._compare_grant(row, account.login)

    def _compare_grant(self, row: MemberRow, login: str) -> str:
        key = (row.path, login, row.role)
        if key in self._lines:
            return f"Line {self._lines[key]} gives {login} this role already. Remove one of both."
        self._lines[key] = row.line
        node = self._paths[row.path]
        grant = None if node is None else self._grants.get((node, login, row.role))
        if grant is None:
            self._add(Action.ROLE_GRANTED, row, login)
            return ""
        self._named.add(grant.id)
        if not row.keeps_expiry and grant.expires_at != row.expires_at:
            before = moment_text(grant.expires_at)
            self._add(
                Action.ROLE_EXPIRY_CHANGED, row, login, before, id=grant.id, version=grant.version
            )
        return ""

    def _invite(self, row: MemberRow, node: UUID | None) -> str:
        try:
            validate_email(row.user)
        except ValidationError:
            return f"There is no user {row.user}. Give a login, or a mail address to invite."
        if len(row.user) > _ADDRESS_LENGTH_MAX:
            return f"A mail address has at most {_ADDRESS_LENGTH_MAX} characters. Give another one."
        address = row.user.lower()
        if address in self._invited:
            return (
                f"Line {self._invited[address]} invites {row.user} already, with one role. Grant "
                "other roles after the invitation is accepted."
            )
        self._invited[address] = row.line
        opened = None if node is None else self._invitations.get((node, address))
        if opened is None:
            if address in self._open:
                return f"{row.user} is invited to another node. Withdraw that invitation first."
            self._add(Action.PERSON_INVITED, row, row.user)
            return ""
        self._named.add(opened.id)
        expires_at = opened.expires_at if row.keeps_expiry else row.expires_at
        same = (opened.role, opened.expires_at) == (row.role, expires_at)
        if not same or row.name not in ("", opened.name):
            return f"{row.user} is invited with other values. Withdraw that invitation first."
        return ""

    def _revoke_missing(self, options: Options) -> None:
        for grant in self._grants.values():
            path = self._path_of.get(grant.node)
            if path is None or grant.id in self._named:
                continue
            self._miss(
                options,
                Change(
                    Action.ROLE_REVOKED, 0, path, user=grant.login, role=grant.role, id=grant.id
                ),
            )
        for opened in self._invitations.values():
            path = self._path_of.get(opened.node)
            if path is None or opened.id in self._named:
                continue
            self._miss(
                options,
                Change(
                    Action.INVITATION_WITHDRAWN,
                    0,
                    path,
                    user=opened.email,
                    role=opened.role,
                    id=opened.id,
                ),
            )

    def _miss(self, options: Options, change: Change) -> None:
        if options.revoke_missing:
            self._found.changes.append(change)
        else:
            self._found.missing_roles += 1

    def _add(
        self,
        action: Action,
        row: MemberRow,
        user: str,
        before: str = "",
        *,
        id: UUID | None = None,
        version: int = 0,
    ) -> None:
        self._found.changes.append(
            Change(
                action=action,
                line=row.line,
                path=row.path,
                user=user,
                role=row.role,
                before=before,
                after=row.name if action is Action.PERSON_INVITED else moment_text(row.expires_at),
                id=id,
                version=version,
                expires_at=row.expires_at,
            )
        )


class _QuotaComparison:
    """Compares quotas, by the nodes' paths after the import. Quotas that the file lacks stay."""

    def __init__(
        self, tree: PresentTree, paths: Mapping[str, UUID | None], found: Comparison
    ) -> None:
        archived = {node.pk for node in tree.nodes if node.archived_at is not None}
        self._paths = {path: pk for path, pk in paths.items() if pk not in archived}
        self._present = {(each.node, each.pool): each for each in tree.quotas}
        self._pools = tree.pools
        self._found = found

    def compare(self, rows: Sequence[QuotaRow]) -> None:
        """Add the changes of quotas."""
        for row in rows:
            problem = self._compare(row)
            if problem:
                self._found.errors.append(LineError(row.line, problem))

    def _compare(self, row: QuotaRow) -> str:
        """Add the change of a row. Return why it cannot be compared, or ""."""
        if row.path not in self._paths:
            return f"There is no node {row.path}. Add a row for it, or correct the path."
        if row.pool not in self._pools:
            known = ", ".join(sorted(self._pools)[:20]) or "none yet"
            return f"There is no pool {row.pool[:63]}. Pools: {known}."
        node = self._paths[row.path]
        present = None if node is None else self._present.get((node, row.pool))
        if present is None:
            if not {"guaranteed_mgpu", "guaranteed_bp"} & {*row.edit}:
                return "A new quota needs guaranteed, such as 8 or 40%."
            self._add(Action.QUOTA_CREATED, row, QuotaEdit(), row.edit)
            return ""
        edit = cast(
            QuotaEdit,
            {
                name: value
                for name, value in row.edit.items()
                if name not in present.edit or present.edit.get(name) != value
            },
        )
        if edit:
            self._add(Action.QUOTA_CHANGED, row, present.edit, edit, present)
        return ""

    def _add(
        self,
        action: Action,
        row: QuotaRow,
        had: QuotaEdit,
        edit: QuotaEdit,
        present: PresentQuota | None = None,
    ) -> None:
        after, before = cells_of(edit), cells_of(had)
        self._found.changes.append(
            Change(
                action=action,
                line=row.line,
                path=row.path,
                pool=row.pool,
                before=_settings_text({name: before[name] for name in after if name in before}),
                after=_settings_text(after),
                id=None if present is None else present.id,
                version=0 if present is None else present.version,
                edit=edit,
            )
        )


def _settings_text(cells: Mapping[str, str]) -> str:
    """Return settings of a quota for people: "guaranteed 8, weight 100"."""
    return ", ".join(f"{name.replace('_', ' ')} {cell}" for name, cell in cells.items())
