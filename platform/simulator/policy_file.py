"""The policy of a simulation, from a file such as `tidegate policy get -o yaml` prints."""

from __future__ import annotations

import typing
from dataclasses import dataclass, field
from enum import EnumType
from pathlib import Path
from typing import Any

from arbiter.api.policy import GRACE_PERIOD_S_MAX, RANGES, Policy
from simulator.scene import QuotaTree, load_yaml, mapping_of, shown
from simulator.traces import TraceError

_GRACE = "grace_period_s_default"
_OF_ORGANIZATION = "grace_period_s"
#: The upper limit of the installation. The arbiter's value is the smaller of the two.
_MOST = "grace_period_s_max"
_GRACES = (_OF_ORGANIZATION, _MOST)
_RANK, _ORGANIZATION = "rank", "organization"
#: Other fields that the portal prints and no scheduler reads.
_UNREAD = ("version", "time_zone")
#: A cycle that may start or stop no job at all would break every guarantee. The portal refuses it.
_LEAST = {"starts_max": 1, "reclaims_max": 1}


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """The content of a policy file: the arbiter's policy and, if given, a `rank` of nodes."""

    path: Path | None = None
    policy: Policy = field(default_factory=Policy)
    rank: object = None
    #: The organization of the policy, by the name at the start of its paths.
    organization: str | None = None

    def ranked(self, tree: QuotaTree) -> QuotaTree:
        """Return `tree` with the file's rank, if it has one.

        Raises TraceError for unknown names, and where the rank names organizations.
        """
        if self.path is None or self.rank is None:
            return tree
        ranked = tree.ranked(self.rank, path=self.path, of=self.organization, where="the quotas")
        if alone := [node.id for node in ranked.nodes if node.rank and node.parent is None]:
            problem = f"rank: {alone[0][:80]!r} is at the top of the quotas and so an organization"
            more = "no rank counts between those; put them below one (YAML, organization: NAME)"
            raise TraceError(self.path, None, f"{problem}; {more}, or take rank out")
        return ranked


def read_policy(path: Path | None) -> PolicyFile:
    """Return the policy in a YAML file, of an organization or of the installation.

    The names are those of the portal. Missing names, an empty file and None have the defaults.

    Raises TraceError.
    """
    if path is None:
        return PolicyFile()
    found = load_yaml(path)
    given = dict(mapping_of(path, {} if found is None else found, "the policy"))
    rank, organization = given.pop(_RANK, None), given.pop(_ORGANIZATION, None)
    for name in _UNREAD:
        given.pop(name, None)
    if organization is not None and not isinstance(organization, str):
        raise TraceError(path, None, f"organization is {shown(organization)}; write its name")
    kinds = typing.get_type_hints(Policy)
    kinds |= dict.fromkeys(_GRACES, kinds.pop(_GRACE))
    for name, value in given.items():
        if name not in kinds:
            known = ", ".join(sorted((*kinds, _RANK)))
            raise TraceError(path, None, f"the policy has no {shown(name)}; it has {known}")
        given[name] = _checked(path, name, value, kinds[name])
    given.setdefault(_OF_ORGANIZATION, Policy().grace_period_s_default)
    given.setdefault(_MOST, GRACE_PERIOD_S_MAX)
    given[_GRACE] = min(given.pop(name) for name in _GRACES)
    return PolicyFile(path, Policy(**given), rank, organization)


def _checked(path: Path, name: str, value: object, kind: type[Any]) -> Any:
    """Return the value of one setting. Raises TraceError if it is not valid."""
    names: list[Any] = list(kind.__members__.values()) if isinstance(kind, EnumType) else []
    if value in names:
        return kind(value)
    if type(value) is not kind:
        wanted = {int: "a whole number", bool: "true or false"}.get(kind) or " or ".join(names)
        raise TraceError(path, None, f"{name} cannot be {shown(value)}: write {wanted}")
    if isinstance(value, int) and kind is int:
        low, high = RANGES[_GRACE if name in _GRACES else name]
        low = _LEAST.get(name, low)
        if not low <= value <= high:
            raise TraceError(path, None, f"policy {name} is {value}; choose {low} to {high}")
    return value
