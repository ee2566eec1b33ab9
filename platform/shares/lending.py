"""Loans of this moment: whose idle guarantee the borrowing nodes of a tree use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from clusters.models import Pool
from history.integrals import Borrower, Lender, lending_below
from history.use import OUTSIDE_NAME, RESERVE_NAME
from primitives.units import largest_remainder
from quotas.models import NodeUse, Quota
from tenants.models import Node


@dataclass(frozen=True, slots=True)
class Loan:
    """GPUs that a borrower uses beyond its guarantee, and the lender who makes it possible.

    Both are paths. A lender is also `RESERVE_NAME`, the guarantee that `within` gave to no child,
    and both are also `OUTSIDE_NAME`, everything outside of `within`.
    """

    within: str
    borrower: str
    lender: str
    mgpu: int


@dataclass(frozen=True, slots=True)
class Partner:
    """A node that a team lends to or borrows from, by its path or as in `Loan`."""

    node: str
    mgpu: int


@dataclass(frozen=True, slots=True)
class Loans:
    """All loans between siblings of an organization in a pool, the largest first."""

    rows: Sequence[Loan]

    def borrowers_from(self, path: str) -> list[Partner]:
        """Return the nodes that use the idle guarantee of the node at `path`."""
        return self._partners(path, lends=True)

    def lenders_to(self, path: str) -> list[Partner]:
        """Return the nodes whose idle guarantee the node at `path` uses."""
        return self._partners(path, lends=False)

    def _partners(self, path: str, *, lends: bool) -> list[Partner]:
        found: dict[str, int] = {}
        asked_mgpu: int | None = None
        while "/" in path:
            own = [one for one in self.rows if path == (one.lender if lends else one.borrower)]
            others = {(one.borrower if lends else one.lender): one.mgpu for one in own}
            if not others:
                break
            if asked_mgpu is not None:
                # Only a part of the loans of a node above is that of the first node.
                others = largest_remainder(asked_mgpu, others, out_of=sum(others.values()))
            asked_mgpu = others.pop(OUTSIDE_NAME, 0)
            for name, mgpu in others.items():
                found[name] = found.get(name, 0) + mgpu
            if not asked_mgpu:
                break
            path = path.rpartition("/")[0]
        if asked_mgpu:
            found[OUTSIDE_NAME] = asked_mgpu
        partners = [Partner(name, mgpu) for name, mgpu in found.items() if mgpu]
        return sorted(partners, key=lambda one: (-one.mgpu, one.node))


def loans_in(organization: Node, pool: Pool) -> Loans:
    """Return the loans after the last cycle. Three queries.

    GPUs of a pool are interchangeable, so each borrower borrows from all lenders in proportion, as
    in the history of use.
    """
    nodes = list(Node.objects.filter(organization=organization).order_by("path"))
    guaranteed: dict[UUID, int] = dict(
        Quota.objects.filter(pool=pool, node__in=nodes).values_list("node", "guaranteed_mgpu")
    )
    uses = {use.node_id: use for use in NodeUse.objects.filter(pool=pool, node__in=nodes)}
    numbers = {node.pk: number for number, node in enumerate(nodes)}
    below: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        if node.parent_id is not None:
            below.setdefault(numbers[node.parent_id], []).append(number)
    promised = [guaranteed.get(node.pk, 0) for node in nodes]
    used = [uses[node.pk].in_use_mgpu if node.pk in uses else 0 for node in nodes]
    lent = [uses[node.pk].lent_mgpu if node.pk in uses else 0 for node in nodes]

    def borrower_name(borrower: Borrower) -> str:
        return OUTSIDE_NAME if borrower.node is None else nodes[borrower.node].display_path

    def lender_name(lender: Lender) -> str:
        if lender.is_reserve:
            return RESERVE_NAME
        return OUTSIDE_NAME if lender.node is None else nodes[lender.node].display_path

    rows = [
        Loan(nodes[parent].display_path, borrower_name(borrower), lender_name(lender), mgpu)
        for parent, children in below.items()
        for (borrower, lender), mgpu in lending_below(
            children,
            used,
            promised,
            {child: lent[child] for child in children},
            drawn=lent[parent],
            reserve=promised[parent] - sum(promised[child] for child in children),
        ).items()
        if (borrower.node, lender.node, lender.is_reserve) != (None, None, False)
    ]
    return Loans(sorted(rows, key=lambda one: (-one.mgpu, one.borrower, one.lender)))
