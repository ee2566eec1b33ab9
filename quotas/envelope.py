"""The arithmetic of a family: resolves percentages, and checks that children fit in their parent.

A family is a node's quota and all quotas below it in one pool. All functions work on loaded rows,
without the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from primitives.errors import Conflict
from primitives.units import BASIS_POINTS, MGPU_PER_GPU, gpus_text, largest_remainder
from quotas.models import Quota
from tenants.models import NodeKind

_NAMED_MAX = 5


class EnvelopeBroken(Conflict):
    """The children's guarantees would exceed their parent's."""

    code = "quota_envelope"
    title = "The guarantees do not fit"


class LendsTooMuch(Conflict):
    """A node's lend limit would exceed its guarantee."""

    code = "quota_lends_too_much"
    title = "The lend limit is above the guarantee"


class Family:
    """The quotas of one subtree and pool."""

    def __init__(self, quotas: Iterable[Quota]) -> None:
        self.by_node: dict[UUID, Quota] = {quota.node_id: quota for quota in quotas}
        self._children: dict[UUID, list[Quota]] = {}
        for quota in self.by_node.values():
            if quota.node.parent_id in self.by_node:
                self._children.setdefault(quota.node.parent_id, []).append(quota)

    def children(self, quota: Quota) -> Sequence[Quota]:
        """Return the quotas of the node's children."""
        return self._children.get(quota.node_id, ())

    def parent(self, quota: Quota) -> Quota | None:
        """Return the quota of the node's parent; None at the top of the family."""
        return self.by_node.get(quota.node.parent_id) if quota.node.parent_id else None

    def resolve_below(self, top: Quota) -> list[Quota]:
        """Set the guarantees below `top` that are percentages, level by level.

        Return the changed quotas. The children of one node share its whole GPUs by largest
        remainder (ties: by path). So they never sum to more than their summed share. A fraction of
        a GPU stays in the parent's reserve.
        """
        changed: list[Quota] = []
        parents = [top]
        for parent in parents:
            by_percent = {
                child.node.path: child
                for child in self.children(parent)
                if child.guaranteed_bp is not None
            }
            gpus = largest_remainder(
                parent.guaranteed_mgpu // MGPU_PER_GPU,
                {path: child.guaranteed_bp or 0 for path, child in by_percent.items()},
                out_of=BASIS_POINTS,
            )
            for path, child in by_percent.items():
                resolved_mgpu = gpus[path] * MGPU_PER_GPU
                if child.guaranteed_mgpu != resolved_mgpu:
                    child.guaranteed_mgpu = resolved_mgpu
                    changed.append(child)
                    parents.append(child)
        return changed

    def check(self, quota: Quota) -> None:
        """Check that `quota` covers its lend limit and the guarantees of its children.

        Raises LendsTooMuch or EnvelopeBroken, with the numbers.
        """
        count = quota.pool.kind.text
        if quota.lend_limit_mgpu is not None and quota.lend_limit_mgpu > quota.guaranteed_mgpu:
            raise LendsTooMuch(
                f"{quota.node.slug} lends up to {count(quota.lend_limit_mgpu)} but would "
                f"be guaranteed only {gpus_text(quota.guaranteed_mgpu)}. Lower its lend limit "
                "too, or clear it, which lends everything.",
                node=quota.node.display_path,
                lend_limit_mgpu=quota.lend_limit_mgpu,
                guaranteed_mgpu=quota.guaranteed_mgpu,
            )
        children = self.children(quota)
        given_mgpu = sum(child.guaranteed_mgpu for child in children)
        if given_mgpu > quota.guaranteed_mgpu:
            raise EnvelopeBroken(
                f"{quota.node.slug} guarantees {count(given_mgpu)} to its "
                f"{_kinds(children)} but would have only {gpus_text(quota.guaranteed_mgpu)}. "
                f"Lower {_names(children)} first.",
                node=quota.node.display_path,
                guaranteed_mgpu=quota.guaranteed_mgpu,
                children_mgpu=given_mgpu,
            )

    def check_room_for(self, quota: Quota) -> None:
        """Raise EnvelopeBroken, with numbers, unless `quota` fits in its parent with its siblings.

        Percentages are checked too. Rounding may make too many percentages fit now, but the parent
        could not be enlarged then.
        """
        parent = self.parent(quota)
        if parent is None:
            return
        others = [child for child in self.children(parent) if child is not quota]
        others_mgpu = sum(child.guaranteed_mgpu for child in others)
        others_bp = sum(child.guaranteed_bp or 0 for child in others)
        left_bp = max(0, BASIS_POINTS - others_bp)
        left_mgpu = parent.guaranteed_mgpu - others_mgpu
        if quota.guaranteed_bp is not None and quota.guaranteed_bp > left_bp:
            told = (
                f"{quota.node.slug} would be guaranteed {_percent(quota.guaranteed_bp)} of "
                f"{parent.node.slug}, which guarantees {_percent(others_bp)} to its other "
                f"{_kinds(others)}; {_percent(left_bp)} are left."
            )
        elif quota.guaranteed_mgpu > left_mgpu:
            told = (
                f"{quota.node.slug} would be guaranteed "
                f"{quota.pool.kind.text(quota.guaranteed_mgpu)}, "
                f"but {parent.node.slug} has {gpus_text(parent.guaranteed_mgpu)} and guarantees "
                f"{gpus_text(others_mgpu)} of them to its other {_kinds(others)}; "
                f"{gpus_text(max(0, left_mgpu))} are left."
            )
        else:
            return
        raise EnvelopeBroken(
            told,
            node=parent.node.display_path,
            guaranteed_mgpu=parent.guaranteed_mgpu,
            children_mgpu=others_mgpu + quota.guaranteed_mgpu,
        )


def _percent(basis_points: int) -> str:
    return f"{basis_points / 100:g} %"


def _kinds(quotas: Sequence[Quota]) -> str:
    kinds = {quota.node.kind for quota in quotas}
    if kinds == {NodeKind.TEAM.value}:
        return "teams"
    if kinds == {NodeKind.DEPARTMENT.value}:
        return "departments"
    return "departments and teams"


def _names(quotas: Sequence[Quota]) -> str:
    """Return the children that could be lowered, the largest first, for a sentence.

    For example "nlp", "nlp or vision", "nlp, vision or speech".
    """
    holders = sorted(
        (quota for quota in quotas if quota.guaranteed_mgpu),
        key=lambda quota: (-quota.guaranteed_mgpu, quota.node.path),
    )
    names = [quota.node.slug for quota in holders[:_NAMED_MAX]]
    if len(holders) > _NAMED_MAX:
        names.append(f"one of {len(holders) - _NAMED_MAX} others")
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
