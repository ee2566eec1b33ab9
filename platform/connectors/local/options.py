"""The options of a local cluster, how they are checked, and the nodes that result from them."""

from __future__ import annotations

import grp
import os
import pwd
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.local.nvidia import nvidia_smi
from connectors.options import (
    Path,
    Value,
    checked,
    constants,
    listed,
    option,
    optional,
    read_record,
    refusal,
    schema_of,
    text,
    texts_by_name,
    whole,
)
from connectors.protocol import TOPOLOGY_LEVELS
from connectors.software import shared_folders_option, software_option
from primitives.units import MGPU_PER_GPU, DeviceKind

NODES_MAX = 10_000
DEVICES_PER_NODE_MAX = 1_024
FEATURES_MAX = 64
LOG_CAP_BYTES = 16 << 20
LOG_CAP_BYTES_MAX = 1 << 40
#: The portal's programs come last, after the machine's. Jobs need them for `tidegate checkpoint`.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + os.path.join(
    os.path.realpath(sys.prefix), "bin"
)
UID_MIN = 1_000
_REFUSED_USERS = frozenset({"root", "slurm", "nobody"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
FOLDERS_MAX = 64
_LIMIT_MIN = 16
_PROCESSES_MAX = 1 << 22
_FILE_MIB_MAX = 1 << 30
_OPEN_FILES_MAX = 1 << 20
#: The range for tests and other callers that open a connector themselves.
_UIDS = (1_880_000_000, 1_880_065_535)
UID_MAX = (1 << 31) - 1
_FEATURE = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_DEFAULT_POOL = "h100"

_REAL_GPUS_KEPT_S = 60


@dataclass(frozen=True, slots=True)
class Node:
    """One node: this machine, or a virtual part of it.

    It has `devices` devices of the kind `device`, with indices from `first_device` on. Jobs may
    have parts of the device of a node that is `shared`.
    """

    name: str
    pool: str
    devices: int
    is_real: bool
    features: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    device: DeviceKind = DeviceKind.GPU
    first_device: int = 0
    is_shared: bool = False

    def device_by_device(self) -> Iterator[Node]:
        """Yield each device as a node of its own, of which jobs may have parts."""
        for index in range(self.first_device, self.first_device + self.devices):
            name = f"{self.name}-gpu{index}"
            yield replace(self, name=name, devices=1, first_device=index, is_shared=True)


def _groups(nodes: Any) -> list[Any] | tuple[Any, ...]:
    """Return the groups of the option nodes. Raises ValueError if there are none."""
    groups = [nodes] if isinstance(nodes, Mapping) else nodes
    if not isinstance(groups, list | tuple) or not groups:
        raise ValueError(
            "option nodes must be a group {count, gpus, shared, pool, prefix, features, domains} "
            "or a list"
        )
    return groups


def _root(option: str, value: object) -> str:
    if not isinstance(value, str | os.PathLike) or not os.path.isabs(value):
        raise ValueError(f"option {option} must be an absolute path")
    return os.path.realpath(value)


def _use_real_gpus(option: str, value: object) -> str:
    for given, meant in ((True, "always"), (False, "never"), ("auto", "auto")):
        if value is given or (given == "auto" and value == given):
            return meant
    raise ValueError(f'option {option} must be "auto", true or false')


def _isolation(option: str, value: object) -> bool:
    if value not in ("auto", "off"):
        raise ValueError(f'option {option} must be "auto" or "off"')
    return value == "auto"


def _run_as(option: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"option {option} must map users of the portal to UNIX users")
    for user, name in value.items():
        if not isinstance(name, str):
            raise refusal((option, user), f"option {option}.{user} must be the name of a UNIX user")
    if os.geteuid() != 0:
        raise ValueError(f"option {option} needs root, to become other users")
    return value


def _folder(option: str, value: object) -> str:
    if not isinstance(value, str) or not os.path.isabs(value):
        raise ValueError(f"option {option} must be {_FOLDERS_WORDS}")
    return os.path.realpath(value)


def _uids(option: str, value: object) -> tuple[int, int]:
    match value:
        case [int(first), int(last)] if UID_MIN <= first <= last <= UID_MAX:
            return first, last
    raise ValueError(f"option {option} must be [first, last], from {UID_MIN} to {UID_MAX}")


def _search_path(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"option {option} must be directories with ':' between them")
    return value


def _domains(option: str, value: object) -> Mapping[str, str]:
    if (
        not isinstance(value, Mapping)
        or not set(value) <= set(TOPOLOGY_LEVELS)
        or not all(isinstance(name, str) and _FEATURE.fullmatch(name) for name in value.values())
    ):
        raise ValueError(
            f"the domains of a group must give some of {', '.join(TOPOLOGY_LEVELS)} a name of "
            "letters, digits, '.', '_' and '-'"
        )
    return dict(value)


def _features(option: str, value: object) -> tuple[str, ...]:
    if (
        not isinstance(value, list | tuple)
        or len(value) > FEATURES_MAX
        or not all(isinstance(name, str) and _FEATURE.fullmatch(name) for name in value)
    ):
        raise ValueError(
            f"the features of a group must be a list of at most {FEATURES_MAX} names of letters, "
            "digits, '.', '_' and '-'"
        )
    return tuple(dict.fromkeys(value))


def _shared(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("shared of a group must be true or false")
    return value


def _name_part(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"option {option} must be letters, digits, '.', '_' and '-'")
    return value


_FOLDERS_WORDS = f"a list of at most {FOLDERS_MAX} absolute paths"
_FOLDERS: Value[tuple[str, ...]] = listed(text(_folder), FOLDERS_MAX, f"must be {_FOLDERS_WORDS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Nodes of one shape."""

    pool: str = option(text(_name_part), title="Pool", default=_DEFAULT_POOL)
    count: int = option(whole(1, NODES_MAX), title="Nodes", default=125)
    gpus: int = option(whole(0, DEVICES_PER_NODE_MAX), title="GPUs of each", default=8)
    cores: int | None = option(
        optional(whole(0, DEVICES_PER_NODE_MAX)),
        title="Cores of each, instead of GPUs",
        help="For a pool of CPU cores; unrelated to the cores of this machine.",
        default=None,
    )
    prefix: str = option(
        text(_name_part),
        title="Prefix of names",
        help="Each group needs another one.",
        default="node-",
    )
    features: tuple[str, ...] = option(
        checked(_features, {"type": "array", "items": {"type": "string"}}),
        title="Features",
        help="Names that jobs may ask for.",
        default=[],
    )
    domains: Mapping[str, str] = option(
        texts_by_name(_domains, **{"x-pairs": "level=name"}),
        title="Place in the topology",
        example={"block": "b1", "rack": "r1"},
        default={},
    )
    shared: bool = option(
        checked(_shared, {"type": "boolean"}),
        title="Jobs may have parts of a GPU",
        help="Each GPU is then a node of its own. All groups of a pool are shared, or none is.",
        default=False,
    )


def _nodes(path: Path, option: object) -> tuple[Node, ...]:
    try:
        groups = _groups(option)
    except ValueError as error:
        raise refusal(path, str(error)) from None
    is_list = groups is option
    nodes: list[Node] = []
    shared: dict[str, bool] = {}
    for index, given in enumerate(groups):
        place: Path = (*path, index) if is_list else path
        group = _group(place, given)
        if shared.setdefault(group.pool, group.shared) is not group.shared:
            raise refusal(
                (*place, "shared"),
                f"some groups of pool {group.pool!r} are shared and some are not; give GPUs of "
                "which jobs may have parts a pool of their own",
            )
        for node in _nodes_of_group(place, group):
            nodes.extend(node.device_by_device() if group.shared else (node,))
            if len(nodes) > NODES_MAX:
                raise refusal(place, f"at most {NODES_MAX:,} nodes; a shared GPU counts as one")
    if len({node.name for node in nodes}) != len(nodes):
        raise refusal(path, "no name twice among nodes: give groups own prefixes")
    return tuple(nodes)


def _group(path: Path, given: object) -> _Group:
    """Return a checked group. Raises OptionsRefused for one with cores that lacks its pool, too."""
    if not isinstance(given, Mapping):
        raise refusal(path, "a group of nodes must be an object")
    unknown = (
        "a group of nodes has count, gpus or cores, shared, pool, prefix, features and domains, "
        "nothing else"
    )
    if "cores" in given:
        if not given.keys().isdisjoint(("gpus", "shared", "domains")):
            raise refusal(
                path, "a group of nodes with cores has neither gpus nor domains, nor is shared"
            )
        if "pool" not in given:
            raise refusal((*path, "pool"), "a group of nodes with cores must name its pool")
    return _Group(**read_record(_Group, given, unknown, path))


def _nodes_of_group(path: Path, group: _Group) -> Iterator[Node]:
    width = max(3, len(str(group.count)))
    names = [f"{group.prefix}{number:0{width}d}" for number in range(1, group.count + 1)]
    if not all(_NAME.fullmatch(name) for name in (names[-1], group.pool)):
        raise refusal(
            path,
            f"{group.prefix!r} and {group.pool!r} must be letters, digits, '.', '_' and '-'",
        )
    has_cores = group.cores is not None
    for name in names:
        yield Node(
            name,
            group.pool,
            group.cores if group.cores is not None else group.gpus,
            is_real=False,
            features=group.features,
            domains=group.domains,
            device=DeviceKind.CPU if has_cores else DeviceKind.GPU,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """Limits of each job."""

    processes: int = option(
        whole(_LIMIT_MIN, _PROCESSES_MAX),
        title="Processes",
        help="Without a cgroup, all jobs of a user share one limit.",
        default=4_096,
    )
    file_mib: int = option(whole(_LIMIT_MIN, _FILE_MIB_MAX), title="MiB of a file", default=65_536)
    open_files: int = option(whole(_LIMIT_MIN, _OPEN_FILES_MAX), title="Open files", default=65_536)


def _limits(path: Path, value: object) -> Mapping[str, int]:
    names = ", ".join(field.name for field in fields(_Limits))
    unknown = f"option {path[0]} has {names}, nothing else"
    if not isinstance(value, Mapping):
        raise refusal(path, unknown)
    return read_record(_Limits, value, unknown, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """The checked options. The order of the fields is that of forms.

    If real GPUs are used, they replace the `virtual_nodes` with GPUs. The operator alone sets
    `hidden`, the paths that jobs never see, and `uids`, the range of user numbers for jobs.
    """

    root: str = option(
        text(_root),
        title="Folder",
        help="Of the attempts: on a local disk, for this cluster only. The operator lists it in "
        "TIDEGATE_LOCAL_ROOTS.",
        example="/var/lib/tidegate/local",
    )
    virtual_nodes: tuple[Node, ...] = option(
        Value(
            _nodes,
            {"type": "array", "items": {**schema_of(_Group), "title": "Group"}, "minItems": 1},
        ),
        name="nodes",
        title="Virtual nodes",
        help="Groups of nodes of the same shape.",
        default=[{}],
    )
    use_real_gpus: str = option(
        checked(
            _use_real_gpus,
            {
                "oneOf": constants(
                    (("auto", "If there are any"), (True, "Always"), (False, "Never"))
                )
            },
        ),
        title="Real GPUs",
        help="The GPUs that nvidia-smi lists are then one node, in place of the virtual nodes with "
        "GPUs.",
        default="auto",
    )
    folders: tuple[str, ...] = option(
        _FOLDERS,
        title="Folders that jobs see",
        help="Besides the system's; their modes decide what the job's user may do there. The "
        "operator lists them in TIDEGATE_LOCAL_FOLDERS.",
        example=["/data", "/scratch"],
        default=[],
    )
    is_isolating: bool = option(
        checked(
            _isolation,
            {"oneOf": constants((("auto", "As far as possible"), ("off", "Off")))},
        ),
        name="isolation",
        title="Isolation of jobs",
        help="Off: jobs run as the portal itself, if the operator allows that.",
        default="auto",
    )
    run_as: Mapping[str, str] | None = option(
        optional(texts_by_name(_run_as, **{"x-pairs": "user=UNIX user"})),
        title="UNIX users",
        help="Of users of the portal. The portal must run as root, and the operator lists the "
        "UNIX users in TIDEGATE_LOCAL_RUN_AS.",
        example={"ana@acme": "ana"},
        default=None,
        is_more=True,
    )
    limits: Mapping[str, int] = option(
        Value(_limits, schema_of(_Limits)),
        title="Limits of each job",
        default={},
        is_more=True,
    )
    log_cap_bytes: int = option(
        whole(0, LOG_CAP_BYTES_MAX),
        title="Bytes of each output that are kept",
        help="Of each stream of each rank. Default: 16 MiB.",
        default=LOG_CAP_BYTES,
        is_more=True,
    )
    path: str = option(
        optional(text(_search_path)),
        title="PATH of the jobs",
        help="Default: the system's folders, then Tidegate's own.",
        default=None,
        is_more=True,
    )
    software: tuple[str, ...] | None = software_option()
    shared_folders: tuple[str, ...] | None = shared_folders_option()
    hidden: tuple[str, ...] = option(_FOLDERS, title="Hidden paths", default=[], is_shown=False)
    uids: tuple[int, int] = option(
        checked(_uids, {"type": "array"}), title="User numbers", default=list(_UIDS), is_shown=False
    )


def parse_options(options: Mapping[str, Any]) -> LocalOptions:
    """Return checked options. Raises OptionsRefused, saying what is wrong, for invalid ones."""
    found = read_record(LocalOptions, options, "unknown options of a local cluster")
    return LocalOptions(**{**found, "path": found["path"] or PATH})


def nodes_of(options: LocalOptions) -> tuple[Node, ...]:
    """Return the current nodes of the cluster.

    Raises ClusterUnavailable when real GPUs are required and nvidia-smi lists none.
    """
    like = next((node for node in options.virtual_nodes if node.device is DeviceKind.GPU), None)
    if options.use_real_gpus == "never" or like is None:
        return options.virtual_nodes
    if (count := _real_gpu_count()) > 0:
        real = Node(_host_name(), like.pool, count, is_real=True, features=like.features)
        cores = (node for node in options.virtual_nodes if node.device is DeviceKind.CPU)
        return (*(real.device_by_device() if like.is_shared else (real,)), *cores)
    if options.use_real_gpus == "always":
        raise ClusterUnavailable("nvidia-smi lists no GPU on this machine")
    return options.virtual_nodes


def unit_mgpu(options: Mapping[str, Any], pool: str) -> int:
    """Return the step of rank sizes in `pool` with these stored options, in milli-GPU.

    Where GPUs are shared, any size is possible; elsewhere only whole GPUs are.
    """
    groups = (group for group in _groups(options.get("nodes", {})) if isinstance(group, Mapping))
    is_shared = any(
        group.get("shared") is True and group.get("pool", _DEFAULT_POOL) == pool for group in groups
    )
    return 1 if is_shared else MGPU_PER_GPU


def mapped_user(options: LocalOptions, user: str) -> pwd.struct_passwd:
    """Return the UNIX user that `run_as` maps `user` to.

    Raises WorkloadRejected for an unmapped user, or for a UNIX user that may not run jobs.
    """
    name = (options.run_as or {}).get(user)
    if name is None:
        raise WorkloadRejected(f"no UNIX user is mapped to {user!r} on this cluster")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise WorkloadRejected(f"{user!r} is mapped to UNIX user {name!r}, unknown here") from None
    if entry.pw_uid < UID_MIN or entry.pw_name in _REFUSED_USERS:
        raise WorkloadRejected(f"jobs may not run as UNIX user {name!r}")
    return entry


def user_number(options: LocalOptions, cluster_user: str | None) -> int:
    """Return the user number under which a person's jobs run.

    Raises ClusterUnavailable while there is none: the portal assigns it as soon as it knows that
    this cluster isolates. Raises WorkloadRejected for a number outside of the range, or one that
    exists on this machine.
    """
    first, last = options.uids
    if cluster_user is None:
        raise ClusterUnavailable("its owner has no user number on this cluster yet")
    number = int(cluster_user) if cluster_user.isascii() and cluster_user.isdigit() else 0
    if not first <= number <= last:
        raise WorkloadRejected(
            f"user number {number} is not of the jobs' range, {first} to {last}; whoever runs this "
            "installation sets that in TIDEGATE_LOCAL_UIDS"
        )
    if is_taken(number):
        raise WorkloadRejected(f"user number {number} is somebody's on this machine")
    return number


def is_taken(number: int) -> bool:
    """Return whether this machine has a user or a group of that number."""
    for look in (pwd.getpwuid, grp.getgrgid):
        try:
            look(number)
        except KeyError:
            continue
        return True
    return False


def _host_name() -> str:
    name = socket.gethostname()
    return name if _NAME.fullmatch(name) else "localhost"


_real_gpus_lock = threading.Lock()
_real_gpus: tuple[float, int] | None = None


def _real_gpu_count() -> int:
    """Return the number of GPUs that nvidia-smi lists, cached for a minute per process.

    Raises ClusterUnavailable when nvidia-smi exists but does not answer properly.
    """
    global _real_gpus
    with _real_gpus_lock:
        if _real_gpus is None or time.monotonic() - _real_gpus[0] > _REAL_GPUS_KEPT_S:
            _real_gpus = (time.monotonic(), _ask_nvidia_smi())
        return _real_gpus[1]


def _ask_nvidia_smi() -> int:
    return sum(line.isdecimal() for line in nvidia_smi("--query-gpu=index") or ())
