"""Laws of tree files: what is written is read, and an export imports without changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.administration import QuotaEdit
from tenants.models import Node
from tenants.names import clean_name
from tenants.roles import Role
from treefile.comparing import Options, compare
from treefile.present import (
    Account,
    PresentGrant,
    PresentInvitation,
    PresentQuota,
    PresentTree,
    as_file,
)
from treefile.reading import read
from treefile.rows import Format
from treefile.writing import write

TOP = UUID(int=1)
ROLES = [role.value for role in Role if role is not Role.PLATFORM_ADMIN]
SLUGS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
#: With everything that formats and spreadsheets treat in their own way.
NAMES = (
    st.text(
        st.one_of(
            st.sampled_from("'\"=+-@|%,;:#&*!>?{}[]\\~ é漢"),
            st.characters(categories=["L", "N", "P", "S", "Zs"]),
        ),
        min_size=1,
        max_size=30,
    )
    .filter(lambda text: text.strip() != "")
    .map(lambda text: clean_name(f"x{text}")[1:].strip() or "x")
    .map(clean_name)
)
MOMENTS = st.none() | st.integers(0, 10**12).map(
    lambda microseconds: datetime(2199, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
)


MGPU = st.integers(0, 10**9)
LIMITS = st.none() | MGPU
SETTINGS = st.one_of(
    st.fixed_dictionaries(
        {
            guarantee: amount,
            "borrow_limit_mgpu": LIMITS,
            "lend_limit_mgpu": LIMITS,
            "weight": st.integers(1, 1_000_000),
        }
    )
    for guarantee, amount in (
        ("guaranteed_mgpu", MGPU),
        ("guaranteed_bp", st.integers(0, 10_000)),
    )
)


@st.composite
def trees(draw: st.DrawFn) -> PresentTree:
    """A small tree with roles and invitations on any of its nodes."""
    top = Node(id=TOP, kind="organization", slug="top", name=draw(NAMES), path="top/")
    nodes = {"top/": top}
    for number, slug in enumerate(draw(st.lists(SLUGS, max_size=6)), 2):
        parents = sorted(path for path, node in nodes.items() if node.kind != "team")
        path = f"{draw(st.sampled_from(parents))}{slug}/"
        kind = draw(st.sampled_from(["department", "team"]))
        nodes.setdefault(
            path, Node(id=UUID(int=number), kind=kind, slug=slug, name=draw(NAMES), path=path)
        )
    ids = st.sampled_from(sorted(node.pk for node in nodes.values()))
    people = draw(st.dictionaries(SLUGS, NAMES, max_size=4))
    keys = st.tuples(ids, st.sampled_from(sorted(people) or ["none"]), st.sampled_from(ROLES))
    grants = draw(st.lists(keys, unique=True, max_size=8)) if people else []
    invited = draw(st.lists(st.tuples(SLUGS, ids), unique_by=lambda each: each[0], max_size=4))
    places = st.tuples(ids, st.sampled_from(["h100", "a10.x"]))
    quotas = draw(st.lists(st.tuples(places, SETTINGS), unique_by=lambda each: each[0], max_size=6))
    return PresentTree(
        top=top,
        quotas=[
            PresentQuota(UUID(int=3_000 + number), 1, node, pool, cast(QuotaEdit, settings))
            for number, ((node, pool), settings) in enumerate(quotas)
        ],
        pools={"h100", "a10.x"},
        nodes=[nodes[path] for path in sorted(nodes)],
        grants=[
            PresentGrant(
                UUID(int=1_000 + number), 1, node, f"{who}@top", people[who], role, draw(MOMENTS)
            )
            for number, (node, who, role) in enumerate(grants)
        ],
        invitations=[
            PresentInvitation(
                UUID(int=2_000 + number),
                node,
                f"{who}@example.org",
                draw(NAMES),
                "researcher",
                draw(MOMENTS),
            )
            for number, (who, node) in enumerate(invited)
        ],
    )


@pytest.mark.parametrize("form", list(Format))
@given(tree=trees())
def test_an_export_imports_without_changes(form: Format, tree: PresentTree) -> None:
    """Even where everything that the file lacks is removed, and every row keeps its values.

    Planted: percentages with one decimal; limits of 0 read as no limit. Against: cells without the
    apostrophe that `escaped` adds once more.
    """
    exported = as_file(tree)
    file, errors = read(write(exported, form), form)
    assert errors == []
    rows = [(row.kind, row.path, row.name, row.id) for row in exported.nodes]
    assert [(row.kind, row.path, row.name, row.id) for row in file.nodes] == rows
    assert sorted(file.quotas, key=lambda row: (row.path, row.pool)) == [
        replace(row, line=found.line)
        for row, found in zip(
            sorted(exported.quotas, key=lambda row: (row.path, row.pool)),
            sorted(file.quotas, key=lambda row: (row.path, row.pool)),
            strict=True,
        )
    ]
    accounts = {
        row.user: [
            Account(grant.login, grant.name) for grant in tree.grants if grant.login == row.user
        ][:1]
        for row in file.members
    }
    found = compare(tree, file, accounts, Options(archive_missing=True, revoke_missing=True))
    assert (found.changes, found.errors) == ([], [])
