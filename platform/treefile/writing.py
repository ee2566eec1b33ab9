"""Writes a tree file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import yaml

from primitives.csv_text import csv_line, plain_text
from treefile.quota_cells import QUOTA_COLUMNS, cells_of
from treefile.rows import Format, MemberRow, NodeRow, QuotaRow, TreeFile, moment_text

COLUMNS = ("kind", "path", "name", "id", "user", "role", "expires_at", "pool", *QUOTA_COLUMNS)


def write(file: TreeFile, form: Format) -> str:
    """Return the text of a file. Quotas and members follow their node."""
    if form is Format.CSV:
        return "".join(_csv_lines(file))
    document = {"nodes": [_entry(*each) for each in _by_node(file)]}
    text: str = yaml.dump(
        document, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False, width=1_000
    )
    return text


def escaped(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula. `reading.unescaped` is the inverse."""
    bare = cell.lstrip("'")
    return f"'{cell}" if plain_text(bare) != bare else cell


def _by_node(file: TreeFile) -> Iterator[tuple[NodeRow, list[QuotaRow], list[MemberRow]]]:
    members: defaultdict[str, list[MemberRow]] = defaultdict(list)
    quotas: defaultdict[str, list[QuotaRow]] = defaultdict(list)
    for member in file.members:
        members[member.path].append(member)
    for quota in file.quotas:
        quotas[quota.path].append(quota)
    for node in file.nodes:
        yield node, quotas[node.path], members[node.path]


def _csv_lines(file: TreeFile) -> Iterator[str]:
    yield csv_line(COLUMNS)
    for node, quotas, members in _by_node(file):
        known = "" if node.id is None else str(node.id)
        yield _line(kind=node.kind, path=node.path, name=node.name, id=known)
        for quota in quotas:
            yield _line(kind="quota", path=quota.path, pool=quota.pool, **cells_of(quota.edit))
        for each in members:
            yield _line(
                kind="member",
                path=each.path,
                name=each.name,
                user=each.user,
                role=each.role,
                expires_at=moment_text(each.expires_at),
            )


def _line(**cells: str) -> str:
    return csv_line([escaped(cells.get(name, "")) for name in COLUMNS])


def _entry(node: NodeRow, quotas: list[QuotaRow], members: list[MemberRow]) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": node.path, "kind": node.kind, "name": node.name}
    if node.id is not None:
        entry["id"] = str(node.id)
    if quotas:
        entry["quotas"] = [{"pool": each.pool, **_numbers(each)} for each in quotas]
    if members:
        entry["members"] = [_member(each) for each in members]
    return entry


def _member(member: MemberRow) -> dict[str, str]:
    entry = {"user": member.user, "role": member.role}
    if member.expires_at is not None:
        entry["expires_at"] = moment_text(member.expires_at)
    if member.name:
        entry["name"] = member.name
    return entry


def _numbers(quota: QuotaRow) -> dict[str, str | int]:
    """Return the settings of a quota, with whole numbers as numbers."""
    cells = cells_of(quota.edit)
    return {name: int(cell) if cell.isdecimal() else cell for name, cell in cells.items()}
