"""Reads a tree file, and collects the errors of all lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TypeVar
from uuid import UUID

import yaml

from primitives.csv_text import plain_text
from primitives.errors import PortalError
from tenants.models import NodeKind
from tenants.names import check_slug, clean_name
from tenants.roles import Role
from treefile.quota_cells import QUOTA_COLUMNS, edit_of
from treefile.rows import (
    BYTES_MAX,
    ROWS_MAX,
    Format,
    LineError,
    MemberRow,
    NodeRow,
    QuotaRow,
    TreeFile,
)
from treefile.writing import COLUMNS
from webapi.parsers import refuse_bad_text

Value = TypeVar("Value")
_MEMBER, _QUOTA = "member", "quota"
_ROLES = [role.value for role in Role if role is not Role.PLATFORM_ADMIN]
#: The columns of each kind of row.
_USED_OF_NODE = {"kind", "path", "name", "id"}
_USED = {
    _MEMBER: {"kind", "path", "name", "user", "role", "expires_at"},
    _QUOTA: {"kind", "path", "pool", *QUOTA_COLUMNS},
}
_CELL_LENGTH_MAX = 2_000
_OTHER_FORMAT = "Correct the line, or choose the other format."

#: Keys and values of a row in YAML, and its own mapping and list: more is no tree file.
_PARTS_PER_ROW_MAX = 14

#: The rows of a file, and the errors of its lines.
ReadFile = tuple[TreeFile, list[LineError]]
#: A row of any format: its line, and its cells by column. Without `expires_at`, the expiry stays.
Cells = tuple[int, Mapping[str, str]]


class _Refused(Exception):
    """A line that cannot be read."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.error = LineError(line, sentence)


def read(text: str, form: Format) -> ReadFile:
    """Return the rows of a file, and the errors of all lines that have one."""
    nodes: list[NodeRow] = []
    members: list[MemberRow] = []
    quotas: list[QuotaRow] = []
    errors: list[LineError] = []
    seen: dict[tuple[str, ...], int] = {}
    try:
        if len(text.encode()) > BYTES_MAX:
            raise _Refused(0, f"A file has at most {BYTES_MAX:,} bytes. Split it by department.")
        for count, (line, cells) in enumerate(_rows(text, form), 1):
            if count > ROWS_MAX:
                raise _Refused(line, f"A file has at most {ROWS_MAX:,} rows. Split it.")
            try:
                row = _row(line, cells)
                _refuse_repeated(row, seen)
            except _Refused as refused:
                errors.append(refused.error)
                continue
            if isinstance(row, NodeRow):
                nodes.append(row)
            elif isinstance(row, QuotaRow):
                quotas.append(row)
            else:
                members.append(row)
    except _Refused as refused:
        errors.append(refused.error)
    if not (nodes or members or quotas or errors):
        errors.append(LineError(0, "The file has no rows. Export the tree to see the format."))
    return TreeFile(nodes, members, quotas), errors


def unescaped(cell: str) -> str:
    """Return a cell without the apostrophe that `writing.escaped` put before a formula."""
    bare = cell.lstrip("'")
    return cell[1:] if cell.startswith("'") and plain_text(bare) != bare else cell


def _rows(text: str, form: Format) -> Iterator[Cells]:
    return _csv_rows(text) if form is Format.CSV else _yaml_rows(text)


def _csv_rows(text: str) -> Iterator[Cells]:
    lines = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        head = [cell.strip() for cell in next(lines, [])]
        if (
            set(head) - set(COLUMNS)
            or len(set(head)) < len(head)
            or not {"kind", "path"} <= {*head}
        ):
            raise _Refused(1, f"The first line must name columns of: {','.join(COLUMNS)}.")
        line = lines.line_num + 1
        always = {"expires_at": ""} if "expires_at" in head else {}
        for cells in lines:
            if any(cells):
                if len(cells) > len(head):
                    raise _Refused(line, f"A line has at most {len(head)} cells, as the first.")
                given = {
                    name: unescaped(cell) for name, cell in zip(head, cells, strict=False) if cell
                }
                yield line, {**always, **given}
            line = lines.line_num + 1
    except csv.Error as error:
        raise _Refused(lines.line_num, f"This is not CSV: {error}. {_OTHER_FORMAT}") from error


def _yaml_rows(text: str) -> Iterator[Cells]:
    try:
        _refuse_shape(text)
        top = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = 0 if mark is None else mark.line + 1
        raise _Refused(line, f"This is not YAML: {error.problem}. {_OTHER_FORMAT}") from error
    except yaml.YAMLError as error:
        raise _Refused(0, f"This is not YAML. {_OTHER_FORMAT}") from error
    if top is None:
        return
    for node in _items(_mapping(top, ("nodes",))["nodes"], "nodes") if top else ():
        entry = _mapping(node, ("path", "kind", "name", "id", "members", "quotas"))
        members, quotas = entry.pop("members", None), entry.pop("quotas", None)
        cells = _texts(entry)
        yield _line(node), cells
        for quota in () if quotas is None else _items(quotas, "quotas"):
            given = _texts(_mapping(quota, ("pool", *QUOTA_COLUMNS)))
            yield _line(quota), {"kind": _QUOTA, "path": cells.get("path", ""), **given}
        for member in () if members is None else _items(members, "members"):
            given = _texts(_mapping(member, ("user", "role", "expires_at", "name")))
            common = {"kind": _MEMBER, "path": cells.get("path", ""), "expires_at": ""}
            yield _line(member), {**common, **given}


def _refuse_shape(text: str) -> None:
    """Refuse size and nesting that a tree file never has, and aliases, before a tree is built."""
    depth = parts = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        parts += isinstance(event, yaml.NodeEvent)
        if parts > _PARTS_PER_ROW_MAX * ROWS_MAX:
            raise _Refused(_line(event), f"A file has at most {ROWS_MAX:,} rows. Split it.")
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(_line(event), "Aliases are not supported. Repeat the text.")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > 5:
                raise _Refused(
                    _line(event),
                    "Lists and mappings are nested too deep. Use the form of "
                    "`tidegate tree export --format yaml`.",
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line(part: yaml.Node | yaml.Event) -> int:
    return 0 if part.start_mark is None else int(part.start_mark.line) + 1


def _mapping(node: yaml.Node, known: tuple[str, ...]) -> dict[str, yaml.Node]:
    names = ", ".join(known)
    if not isinstance(node, yaml.MappingNode):
        raise _Refused(_line(node), f"Give a mapping of {names}.")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value not in known:
            raise _Refused(_line(key), f"The known keys here are {names}.")
        if key.value in found:
            raise _Refused(_line(key), f"The key {key.value} is given twice. Remove one.")
        found[key.value] = value
    if known[0] not in found:
        raise _Refused(_line(node), f"The key {known[0]} is missing.")
    return found


def _items(node: yaml.Node, name: str) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise _Refused(_line(node), f"{name} must be a list.")
    return list(node.value)


def _texts(entry: Mapping[str, yaml.Node]) -> dict[str, str]:
    found = {}
    for name, node in entry.items():
        if not isinstance(node, yaml.ScalarNode):
            raise _Refused(_line(node), f"{name} must be a text.")
        if node.tag != "tag:yaml.org,2002:null":
            found[name] = node.value
    return found


def _row(line: int, cells: Mapping[str, str]) -> NodeRow | MemberRow | QuotaRow:
    kind = cells.get("kind", "").strip()
    if kind not in (*NodeKind.values, _MEMBER, _QUOTA):
        known = ", ".join((*NodeKind.values, _MEMBER, _QUOTA))
        raise _Refused(line, f"kind must be one of {known}.")
    unused = {*COLUMNS} - _USED.get(kind, _USED_OF_NODE)
    for name, cell in cells.items():
        if len(cell) > _CELL_LENGTH_MAX:
            raise _Refused(line, f"{name} has at most {_CELL_LENGTH_MAX:,} characters. Shorten it.")
        _checked(line, name, partial(refuse_bad_text, cell))
        if name in unused and cell.strip():
            raise _Refused(line, f"A row of the kind {kind} has no {name}. Leave it empty.")
    path = _checked(line, "path", lambda: _path(cells.get("path", "")))
    name = cells.get("name", "")
    if kind == _MEMBER:
        return _member(line, path, name, cells)
    if kind == _QUOTA:
        return _quota(line, path, cells)
    known_id = cells.get("id", "").strip()
    return NodeRow(
        line=line,
        kind=kind,
        path=path,
        name=_checked(line, "name", lambda: clean_name(name)),
        id=_checked(line, "id", lambda: UUID(known_id)) if known_id else None,
    )


def _member(line: int, path: str, name: str, cells: Mapping[str, str]) -> MemberRow:
    user, role = cells.get("user", "").strip(), cells.get("role", "").strip()
    if not user:
        raise _Refused(line, "user must be a login or a mail address.")
    if role not in _ROLES:
        raise _Refused(line, f"role must be one of {', '.join(_ROLES)}.")
    until = cells.get("expires_at", "").strip()
    return MemberRow(
        line=line,
        path=path,
        user=user,
        role=role,
        expires_at=_moment(line, until) if until else None,
        name=_checked(line, "name", lambda: clean_name(name)) if name else "",
        keeps_expiry="expires_at" not in cells,
    )


def _quota(line: int, path: str, cells: Mapping[str, str]) -> QuotaRow:
    pool = cells.get("pool", "").strip()
    if not pool:
        raise _Refused(line, "pool must be the name of a pool.")
    try:
        return QuotaRow(line, path, pool, edit_of(cells))
    except ValueError as error:
        raise _Refused(line, f"{error}.") from error


def _path(text: str) -> str:
    path = text.strip().strip("/")
    for slug in path.split("/"):
        check_slug(slug, field="path")
    return path


def _moment(line: int, text: str) -> datetime:
    sentence = "expires_at must be a time such as 2026-12-31T23:59:59Z, or empty."
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise _Refused(line, sentence) from error
    if moment.tzinfo is None or not 1970 <= moment.year < 9_999:
        raise _Refused(line, sentence)
    return moment


def _checked(line: int, name: str, read_cell: Callable[[], Value]) -> Value:
    try:
        return read_cell()
    except PortalError as error:
        raise _Refused(line, error.detail) from error
    except ValueError as error:
        raise _Refused(line, f"{name}: {error}".rstrip(".") + ".") from error


def _refuse_repeated(row: NodeRow | MemberRow | QuotaRow, seen: dict[tuple[str, ...], int]) -> None:
    keys: list[tuple[str, ...]] = [("path", row.path)]
    if isinstance(row, MemberRow):
        keys = [("member", row.path, row.user.lower(), row.role)]
    elif isinstance(row, QuotaRow):
        keys = [("quota", row.path, row.pool)]
    elif row.id is not None:
        keys.append(("id", str(row.id)))
    # Two rows of YAML may stand on one line.
    for key in keys:
        if key in seen:
            raise _Refused(row.line, f"Line {seen[key]} says this already. Remove one of both.")
        seen[key] = row.line
