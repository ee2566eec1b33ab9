"""The fleet and the quotas of a simulation, read from files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, TreeNode
from primitives.units import MGPU_PER_GPU, largest_remainder
from simulator.traces import NO_TEXT, Machine, TraceError, without_point

POOL = "gpu"
_DEPTH_MAX = 16
_NAMES = ("team", "vc")
_GUARANTEES = ("quota_gpus", "guaranteed_gpus")
_LIMITS = ("lend_limit", "borrow_limit")
_WEIGHT_MAX = 1_000_000
#: The most GPUs of one guarantee or limit, the most digits of a number that is read, and the most
#: characters of a wrong value that an error shows.
_GPUS_MAX = 10_000_000
_DIGITS_MAX = 20
_SHOWN_MAX = 40
_BELOW = ("departments", "teams")
_ENTRY = ("guaranteed", *_LIMITS, "weight", *_BELOW)
#: The entries of a company file's policy: the order of nodes, and the ones without effect here.
_RANK = "rank"
_POLICIES = ("grace_period_s", "fair_share_half_life_days")
#: The keys at the top of a quota file. The last three belong to a company file and have no effect.
_TOP = (
    "gpus",
    "pools",
    "policy",
    *_BELOW,
    "organization",
    "priority_classes",
    "rate_card",
    "people",
)


@dataclass(frozen=True, slots=True)
class Scene:
    """The fleet, the tree with its quotas, and the policy of a simulation.

    `teams` has the guarantee of every leaf in milli-GPU. `departments` has the guarantee of every
    other node except organizations. A trace names a team by the last part of its id.
    """

    machines: tuple[Machine, ...]
    nodes: tuple[TreeNode, ...]
    quotas: tuple[Quota, ...]
    teams: Mapping[str, int]
    departments: Mapping[str, int] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)

    @property
    def capacity_mgpu(self) -> int:
        """Return the capacity of the fleet."""
        return sum(machine.mgpu for machine in self.machines)

    def above(self, team: str) -> tuple[str, ...]:
        """Return the departments of `team`, the nearest first."""
        parents = {node.id: node.parent for node in self.nodes}
        found = []
        parent = parents[team]
        while parent is not None:
            if parent in self.departments:
                found.append(parent)
            parent = parents[parent]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class QuotaTree:
    """The tree and quotas of a file.

    `gpus` is the size of the fleet if the file states it. `organization` is the node that the file
    names as such. `unused` are the policies of the file that have no effect in a simulation.
    """

    nodes: tuple[TreeNode, ...]
    quotas: tuple[Quota, ...]
    gpus: int | None = None
    organization: str | None = None
    unused: tuple[str, ...] = ()

    @property
    def departments(self) -> tuple[str, ...]:
        """Return the nodes with children that are no organization.

        An organization is the node that the file names as such, or a node at the top with
        departments below it.
        """
        parents = {node.id: node.parent for node in self.nodes}
        inner = dict.fromkeys(parent for parent in parents.values() if parent is not None)
        above = {parents[node] for node in inner}
        return tuple(
            node
            for node in inner
            if node != self.organization and (parents[node] is not None or node not in above)
        )

    def ranked(self, rank: object, *, path: Path, where: str, of: str | None = None) -> QuotaTree:
        """Return the tree with these nodes ranked before their siblings, in the order of `rank`.

        Other nodes share the last rank. An entry is a name or a path. A path may begin with the
        name of the tree's organization, or with `of`.

        Raises TraceError for the file at `path` where an entry is no node of `where`, or occurs
        twice.
        """
        if not isinstance(rank, list) or not all(isinstance(name, str) for name in rank):
            raise TraceError(path, None, "rank is a list of names")
        known = {name for node in self.nodes for name in (node.id, node.id.rpartition("/")[2])}
        ranks: dict[str, int] = {}
        for place, name in enumerate(rank):
            bare = [name, *(name.removeprefix(f"{one}/") for one in (of, self.organization) if one)]
            found = next((one for one in bare if one in known), None)
            if found is None:
                problem = f"rank: {name[:80]!r} is no department or team of {where}"
                raise TraceError(
                    path, None, f"{problem}; write it as it stands there, or take it out"
                )
            if found in ranks:
                raise TraceError(path, None, f"rank: {name[:80]!r} is there twice; name it once")
            ranks[found] = len(rank) - place
        nodes = (
            replace(node, rank=ranks.get(node.id, ranks.get(node.id.rpartition("/")[2], 0)))
            for node in self.nodes
        )
        return replace(self, nodes=tuple(nodes))


def uniform_fleet(gpus: int, per_node: int) -> tuple[Machine, ...]:
    """Return `gpus` on nodes of `per_node`; the last node has the remainder."""
    whole, rest = divmod(gpus, per_node)
    sizes = [per_node] * whole + ([rest] if rest else [])
    return tuple(Machine(f"n{i:05d}", size * MGPU_PER_GPU) for i, size in enumerate(sizes))


def stage(
    tree: QuotaTree,
    machines: tuple[Machine, ...],
    policy: Policy,
    teams: Sequence[str],
    *,
    scale: bool,
) -> tuple[Scene, Mapping[str, str]]:
    """Return the scene, and the tree's id of each of the trace's `teams`.

    With `scale`, guarantees are shares. They are scaled from the top to sum to the fleet, by
    largest remainder, and limits in the same proportion. A team that is not in the tree becomes an
    organization without guarantee.

    Raises ValueError where guarantees sum to more than the fleet, and where two leaves have the
    name of a team. It also does so where a team of the trace is a department in the tree.
    """
    capacity = sum(machine.mgpu for machine in machines)
    quotas = _scaled(tree, capacity) if scale else tree.quotas
    top = {node.id for node in tree.nodes if node.parent is None}
    total = sum(quota.guaranteed_mgpu for quota in quotas if quota.node in top)
    if total > capacity:
        raise ValueError(
            f"the guarantees sum to {total // 1000:,} GPUs and the fleet has {capacity // 1000:,}; "
            "scale them to it, or make it larger"
        )
    parents = dict.fromkeys(node.parent for node in tree.nodes)
    leaves = [node.id for node in tree.nodes if node.id not in parents]
    named: dict[str, str] = {}
    for leaf in leaves:
        for name in {leaf, leaf.rpartition("/")[2]}:
            if name in named and name in teams:
                raise ValueError(f"two teams of the quotas are called {name!r}")
            named[name] = leaf
    unknown = sorted({team for team in teams if team not in named})
    inner = {name for node in parents if node for name in (node, node.rpartition("/")[2])}
    if mistaken := [team for team in unknown if team in inner]:
        raise ValueError(
            f"the trace has jobs of {mistaken[0]!r}, which the quotas have as a department; "
            "jobs belong to teams"
        )
    guaranteed = {quota.node: quota.guaranteed_mgpu for quota in quotas}
    scene = Scene(
        machines=machines,
        nodes=tree.nodes + tuple(TreeNode(team, None) for team in unknown),
        quotas=quotas + tuple(Quota(team, POOL, 0) for team in unknown),
        teams={
            **{leaf: guaranteed.get(leaf, 0) for leaf in leaves},
            **dict.fromkeys(unknown, 0),
        },
        departments={node: guaranteed.get(node, 0) for node in tree.departments},
        policy=policy,
    )
    return scene, {team: named.get(team, team) for team in set(teams)}


def _scaled(tree: QuotaTree, capacity: int) -> tuple[Quota, ...]:
    """Return the quotas, scaled to the capacity.

    Guarantees are whole GPUs, scaled level by level. Limits are scaled by the ratio of the top
    level and rounded down to a milli-GPU.
    """
    given = {quota.node: quota for quota in tree.quotas}
    children: dict[str | None, dict[str, int]] = {}
    for node in tree.nodes:
        quota = given.get(node.id)
        children.setdefault(node.parent, {})[node.id] = quota.guaranteed_mgpu if quota else 0
    whole: dict[str | None, int] = {None: capacity // MGPU_PER_GPU}
    inner: list[str | None] = [None, *(one.id for one in tree.nodes)]
    for above in inner:
        below = children.get(above)
        if below is None:
            continue
        before = sum(below.values()) if above is None else given[above].guaranteed_mgpu
        shares = largest_remainder(whole[above], below, out_of=before) if before else {}
        whole.update({child: shares.get(child, 0) for child in below})
    total = sum(children.get(None, {}).values())

    def limit(mgpu: int | None) -> int | None:
        return mgpu if mgpu is None or not total else mgpu * capacity // total

    return tuple(
        replace(
            quota,
            guaranteed_mgpu=whole[quota.node] * MGPU_PER_GPU,
            lend_limit_mgpu=limit(quota.lend_limit_mgpu),
            borrow_limit_mgpu=limit(quota.borrow_limit_mgpu),
        )
        for quota in tree.quotas
    )


def read_quotas(path: Path) -> QuotaTree:
    """Read quotas from a CSV file (a node per row) or a YAML file (a tree).

    CSV columns: `team` or `vc`, then `quota_gpus` or `guaranteed_gpus`. `lend_limit_gpus` and
    `borrow_limit_gpus` are optional. A name may be a path, `research/vision`. A row of its own
    states the guarantee of `research` for all below it; rows may have any order. Without such a row
    it is the sum of the nodes directly below.

    YAML keys:

    - `departments` and `teams` map a name to its entry, and entries may nest.
    - An entry has `guaranteed` (GPUs, or a percentage of the parent), `lend_limit`, `borrow_limit`,
      and `weight` for spare GPUs.
    - `gpus` or `pools` state the size of the fleet.
    - `organization` names the root of all nodes. Without it each node at the top is an organization
      of its own.
    - `policy: {rank: [...]}` lists departments and teams by path or name, the highest rank first.
      It orders the nodes of one organization.

    Raises TraceError.
    """
    if path.suffix.lower() in (".yaml", ".yml"):
        return _read_tree(path)
    return _read_list(path)


def _read_list(path: Path) -> QuotaTree:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except UnicodeDecodeError:
        raise TraceError(path, None, NO_TEXT) from None
    except (OSError, csv.Error) as error:
        raise TraceError(path, None, getattr(error, "strerror", None) or str(error)) from None
    header = [name.strip() for name in rows[0]] if rows else []
    team = next((name for name in _NAMES if name in header), None)
    guaranteed = next((name for name in _GUARANTEES if name in header), None)
    if team is None or guaranteed is None:
        raise TraceError(path, 1, "a column team (or vc) and one quota_gpus are needed")
    tree: dict[str, Any] = {}
    for at, values in enumerate(rows[1:], 2):
        if not values:
            continue
        if len(values) != len(header):
            raise TraceError(path, at, f"{len(values)} columns; the header has {len(header)}")
        row = dict(zip(header, (value.strip() for value in values), strict=True))
        parts = [part.strip() for part in row[team].split("/")]
        if len(parts) > _DEPTH_MAX:
            raise TraceError(path, at, f"{row[team][:80]!r} is too deep")
        entry = tree
        for part in parts:
            entry = entry.setdefault("teams", {}).setdefault(part, {})
        if not all(parts) or "guaranteed" in entry:
            raise TraceError(path, at, f"team {row[team]!r} is empty or there twice")
        entry["guaranteed"] = _gpus(path, at, guaranteed, row[guaranteed])
        for limit in _LIMITS:
            if text := row.get(f"{limit}_gpus"):
                entry[limit] = _gpus(path, at, f"{limit}_gpus", text)
    if not tree:
        raise TraceError(path, None, "there is no team in it")
    for entry in tree["teams"].values():
        _sum_up(entry)
    nodes: list[TreeNode] = []
    quotas: list[Quota] = []
    _add(path, tree, None, None, nodes, quotas)
    return QuotaTree(tuple(nodes), tuple(quotas))


def _sum_up(entry: dict[str, Any]) -> int:
    """Return the guarantee of `entry`; by default set the sum of the entries directly below."""
    below = sum(_sum_up(one) for one in entry.get("teams", {}).values())
    gpus: int = entry.setdefault("guaranteed", below)
    return gpus


def _gpus(path: Path, at: int | None, name: str, text: object) -> int:
    if isinstance(text, str):
        number = without_point(text)
        if number.isdecimal() and len(number) <= _DIGITS_MAX:
            text = int(number)
    if not isinstance(text, int) or isinstance(text, bool) or not 0 <= text <= _GPUS_MAX:
        problem = f"{name} is {shown(text)}; a whole number of GPUs is needed, 0 to {_GPUS_MAX:,}"
        raise TraceError(path, at, problem)
    return text


def shown(value: object) -> str:
    """Return a value of the user, cut to a short text; YAML aliases can make it huge."""
    text = repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def _read_tree(path: Path) -> QuotaTree:
    given = mapping_of(path, load_yaml(path), "the file")
    _refuse_unknown(path, given, "the file", _TOP)
    gpus = given.get("gpus")
    if gpus is None and "pools" in given:
        pools = mapping_of(path, given["pools"], "pools")
        sizes = [mapping_of(path, pool, "a pool").get("gpus") for pool in pools.values()]
        if len(sizes) != 1:
            raise TraceError(path, None, "one pool is simulated at a time; name one")
        gpus = sizes[0]
    size = None if gpus is None else _gpus(path, None, "gpus", gpus)
    policy = mapping_of(path, given.get("policy") or {}, "policy")
    _refuse_unknown(path, policy, "policy", (_RANK, *_POLICIES))
    nodes: list[TreeNode] = []
    quotas: list[Quota] = []
    _add(path, given, None, size, nodes, quotas)
    if not quotas:
        raise TraceError(path, None, "there is no department and no team in it")
    organization = given.get("organization")
    if "organization" in given:
        _put_below(path, organization, size, nodes, quotas)
    unused = tuple(name for name in _POLICIES if name in policy)
    tree = QuotaTree(tuple(nodes), tuple(quotas), size, organization, unused)
    return tree.ranked(policy.get(_RANK) or [], path=path, where="this file")


def _put_below(
    path: Path, name: object, gpus: int | None, nodes: list[TreeNode], quotas: list[Quota]
) -> None:
    """Put all `nodes` below a new organization; their names stay the same.

    Its guarantee is the whole fleet of `gpus`, or the sum of the guarantees directly below if the
    file does not state a size.
    """
    if not isinstance(name, str) or not name.strip():
        raise TraceError(path, None, f"organization is {str(name)[:60]!r}; write its name")
    top = {node.id for node in nodes if node.parent is None}
    if any(name in (node.id, node.id.rpartition("/")[2]) for node in nodes):
        raise TraceError(path, None, f"{name!r} is the organization and below it; rename one")
    mgpu = sum(quota.guaranteed_mgpu for quota in quotas if quota.node in top)
    if gpus is not None and mgpu > gpus * MGPU_PER_GPU:
        raise TraceError(
            path,
            None,
            f"the guarantees right below {name} sum to {mgpu // MGPU_PER_GPU:,} GPUs and it has "
            f"{gpus:,}; give it more, or them less",
        )
    nodes[:] = [
        TreeNode(name, None),
        *(replace(node, parent=name) if node.parent is None else node for node in nodes),
    ]
    quotas.insert(0, Quota(name, POOL, mgpu if gpus is None else gpus * MGPU_PER_GPU))


def _add(
    path: Path,
    given: Mapping[str, Any],
    parent: str | None,
    gpus: int | None,
    nodes: list[TreeNode],
    quotas: list[Quota],
) -> None:
    """Add the entries below `parent`, whose guarantee is `gpus`."""
    departments, teams = (mapping_of(path, given.get(key) or {}, key) for key in _BELOW)
    if twice := sorted(departments.keys() & teams.keys()):
        where = "" if parent is None else f" below {parent}"
        raise TraceError(path, None, f"{twice[0]!r} is a department and a team{where}; rename one")
    below = {**departments, **teams}
    if parent is not None and parent.count("/") >= _DEPTH_MAX:
        raise TraceError(path, None, f"{parent} is too deep")
    entries = {name: mapping_of(path, entry or {}, name) for name, entry in below.items()}
    shares = _guarantees(path, parent, gpus, entries)
    for name, entry in entries.items():
        id_ = name if parent is None else f"{parent}/{name}"
        _refuse_unknown(path, entry, id_, _ENTRY)
        nodes.append(TreeNode(id_, parent))
        more = {
            f"{key}_mgpu": _gpus(path, None, f"{key} of {id_}", entry[key]) * MGPU_PER_GPU
            for key in _LIMITS
            if entry.get(key) is not None
        }
        if "weight" in entry:
            more["weight"] = _weight(path, id_, entry["weight"])
        quota = Quota(id_, POOL, shares[name] * MGPU_PER_GPU, **more)
        if quota.lend_limit_mgpu is not None and quota.lend_limit_mgpu > quota.guaranteed_mgpu:
            raise TraceError(
                path,
                None,
                f"{id_} lends up to {quota.lend_limit_mgpu // MGPU_PER_GPU:,} GPUs and is "
                f"guaranteed only {shares[name]:,}; lower its lend limit, or leave it out, which "
                "lends everything",
            )
        quotas.append(quota)
        _add(path, entry, id_, shares[name], nodes, quotas)


def _guarantees(
    path: Path, parent: str | None, gpus: int | None, entries: Mapping[str, Mapping[str, Any]]
) -> dict[str, int]:
    """Return the GPUs of each entry; percentages are of the parent's, by largest remainder."""
    fixed: dict[str, int] = {}
    percents: dict[str, int] = {}
    for name, entry in entries.items():
        value = entry.get("guaranteed", 0)
        if isinstance(value, str) and value.endswith("%"):
            number = value[:-1].strip()
            if not number.isdecimal() or int(number) > 100:
                raise TraceError(path, None, f"guaranteed of {name} is {value!r}; 0% to 100%")
            percents[name] = int(number)
        else:
            fixed[name] = _gpus(path, None, f"guaranteed of {name}", value)
    if (percent := sum(percents.values())) > 100:
        whole = "the fleet" if parent is None else parent
        problem = f"the percentages right below {whole} sum to {percent} %; give them 100 % at most"
        raise TraceError(path, None, problem)
    if percents:
        if gpus is None:
            raise TraceError(
                path,
                None,
                "percentages need the size of the fleet at the top of the file, as in gpus: 512",
            )
        fixed.update(largest_remainder(gpus, percents, out_of=100))
    total = sum(fixed.values())
    if parent is not None and gpus is not None and total > gpus:
        raise TraceError(
            path,
            None,
            f"the guarantees right below {parent} sum to {total:,} GPUs and it has {gpus:,}; "
            "give it more, or them less",
        )
    return fixed


def _weight(path: Path, name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _WEIGHT_MAX:
        raise TraceError(path, None, f"weight of {name} is {value!r}; 1 to {_WEIGHT_MAX:,}")
    return value


def _refuse_unknown(path: Path, given: Mapping[str, Any], what: str, known: Sequence[str]) -> None:
    """Raise TraceError for an unknown key, because its content would be ignored."""
    if unknown := [key for key in given if key not in known]:
        raise TraceError(
            path, None, f"{what} has no {unknown[0]!r}; it may have {', '.join(known)}"
        )


class _Loader(yaml.SafeLoader):
    """A YAML loader that refuses a key that occurs twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in names:
                    problem = f"{shown(key.value)} is there twice; name it once"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                names.add(key.value)
        return super().construct_mapping(node, deep)


def load_yaml(path: Path) -> object:
    """Return the content of a YAML file. Raises TraceError."""
    try:
        return yaml.load(path.read_text("utf-8"), _Loader)  # noqa: S506 - it is a safe one
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise TraceError(path, line, error.problem or "it is no YAML") from None
    except UnicodeDecodeError:
        raise TraceError(path, None, NO_TEXT) from None
    except (OSError, yaml.YAMLError) as error:
        raise TraceError(path, None, getattr(error, "strerror", None) or str(error)) from None
    except ValueError:
        # Raised by a number with thousands of digits, or by a date that does not exist.
        raise TraceError(path, None, "a number or a date in it is none; mend it") from None
    except RecursionError:
        raise TraceError(path, None, "it is nested too deep") from None


def mapping_of(path: Path, value: object, what: str) -> Mapping[str, Any]:
    """Return `value` of the file, which must be a mapping of names. Raises TraceError."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TraceError(path, None, f"{what} must be a mapping of names")
    return value
