"""The checked options of a local cluster, and the nodes that result from them.

    root            directory of the attempts; on a local disk, for this connector only
    nodes           a group of virtual nodes, or a list of groups:
                    {count, gpus or cores, shared, pool, prefix, features, domains}.
                    features, none by default, are names that jobs may ask for. domains, such as
                    {"block": "b1", "rack": "r1"}, are the group's place in the topology.
                    shared (false by default) lets jobs have parts of GPUs: then each GPU is a
                    node of its own, so that one request can take all that is free of a node.
                    All groups of a pool are shared, or none is. A group with cores instead of
                    gpus offers CPU cores to a pool of cores, unrelated to the real number of
                    cores of this machine
    use_real_gpus   "auto" (default): the GPUs that nvidia-smi lists, if any, on one node named
                    after this machine, else the virtual nodes; true: real GPUs or none; false:
                    virtual nodes. Real GPUs are shared if the first group with GPUs is. Nodes
                    with cores exist in any case
    log_cap_bytes   cap of each stream of each rank, 16 MiB by default
    path            PATH of the jobs; the system's folders and then Tidegate's own by default
    run_as          {portal user: UNIX user}; the portal must run as root to use it
    isolation       "auto" (default): as far as this machine allows (see `isolation`); "off": none
    folders         folders of this machine that jobs see besides the system's, none by default;
                    their modes decide what the job's user may do there
    limits          {processes, file_mib, open_files} of each job; by default 4096, 65536 (64 GiB)
                    and 65536. Without a cgroup, all jobs of a user share one limit of processes
    hidden, uids    set by the operator (see `clusters.trusted`): paths that jobs never see, and
                    [first, last], the range of user numbers for jobs

A group may leave out the fields that have a default.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.protocol import TOPOLOGY_LEVELS
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
_KNOWN = frozenset(
    {
        *("root", "nodes", "use_real_gpus", "log_cap_bytes", "path", "run_as"),
        *("isolation", "folders", "limits", "hidden", "uids"),
    }
)
FOLDERS_MAX = 64
#: By name, the default limit of a job, and the largest that an administrator may set.
_LIMITS = {
    "processes": (4_096, 1 << 22),
    "file_mib": (65_536, 1 << 30),
    "open_files": (65_536, 1 << 20),
}
#: The range for tests and other callers that open a connector themselves.
_UIDS = (1_880_000_000, 1_880_065_535)
UID_MAX = (1 << 31) - 1
_FEATURE = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_DEFAULT_GROUP = {
    "count": 125,
    "gpus": 8,
    "shared": False,
    "pool": "h100",
    "prefix": "node-",
    "features": (),
    "domains": {},
}

_NVIDIA_SMI_TIMEOUT_S = 20
_REAL_GPUS_KEPT_S = 60
#: "A query to find an object was unsuccessful" and "NVIDIA driver is not loaded", says its manual.
_NVIDIA_SMI_NO_GPU = (6, 9)


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


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """Checked options. If real GPUs are used, they replace the `virtual_nodes` with GPUs."""

    root: str
    virtual_nodes: tuple[Node, ...]
    use_real_gpus: str
    log_cap_bytes: int
    path: str
    run_as: Mapping[str, str] | None
    is_isolating: bool
    folders: tuple[str, ...]
    limits: Mapping[str, int]
    hidden: tuple[str, ...]
    uids: tuple[int, int]


def parse_options(options: Mapping[str, Any]) -> LocalOptions:
    """Return checked options. Raises ValueError, saying what is wrong, for invalid ones."""
    if unknown := sorted(set(options) - _KNOWN):
        raise ValueError(f"unknown options of a local cluster: {', '.join(map(str, unknown))}")
    root = options.get("root")
    if not isinstance(root, str | os.PathLike) or not os.path.isabs(root):
        raise ValueError("option root must be an absolute path")
    use_real = options.get("use_real_gpus", "auto")
    if use_real not in ("auto", True, False):
        raise ValueError('option use_real_gpus must be "auto", true or false')
    log_cap_bytes = options.get("log_cap_bytes", LOG_CAP_BYTES)
    _check_count("log_cap_bytes", log_cap_bytes, 0, LOG_CAP_BYTES_MAX)
    run_as = options.get("run_as")
    if run_as is not None and not isinstance(run_as, Mapping):
        raise ValueError("option run_as must map users of the portal to UNIX users")
    if run_as is not None and os.geteuid() != 0:
        raise ValueError("option run_as needs root, to become other users")
    isolation = options.get("isolation", "auto")
    if isolation not in ("auto", "off"):
        raise ValueError('option isolation must be "auto" or "off"')
    return LocalOptions(
        root=os.path.realpath(root),
        virtual_nodes=_virtual_nodes(options.get("nodes", _DEFAULT_GROUP)),
        use_real_gpus={True: "always", False: "never"}.get(use_real, "auto"),
        log_cap_bytes=log_cap_bytes,
        path=str(options.get("path", PATH)),
        run_as=run_as,
        is_isolating=isolation == "auto",
        folders=_folders("folders", options.get("folders", ())),
        limits=_limits(options.get("limits", {})),
        hidden=_folders("hidden", options.get("hidden", ())),
        uids=_uids(options.get("uids", _UIDS)),
    )


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
    groups = _groups(options.get("nodes", _DEFAULT_GROUP))
    wholes = ({**_DEFAULT_GROUP, **group} for group in groups if isinstance(group, Mapping))
    is_shared = any(one["shared"] is True and one["pool"] == pool for one in wholes)
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


def _groups(nodes: Any) -> list[Any] | tuple[Any, ...]:
    """Return the groups of the option nodes. Raises ValueError if there are none."""
    groups = [nodes] if isinstance(nodes, Mapping) else nodes
    if not isinstance(groups, list | tuple) or not groups:
        raise ValueError(
            "option nodes must be a group {count, gpus, shared, pool, prefix, features, domains} "
            "or a list"
        )
    return groups


def _virtual_nodes(option: Any) -> tuple[Node, ...]:
    nodes: list[Node] = []
    shared: dict[str, bool] = {}
    for group in _groups(option):
        if not isinstance(group, Mapping) or set(group) - {*_DEFAULT_GROUP, "cores"}:
            raise ValueError(
                "a group of nodes has count, gpus or cores, shared, pool, prefix, features and "
                "domains, nothing else"
            )
        device = DeviceKind.CPU if "cores" in group else DeviceKind.GPU
        if device is DeviceKind.CPU:
            _check_cores(group)
        whole: dict[str, Any] = {**_DEFAULT_GROUP, **group}
        counted = "cores" if device is DeviceKind.CPU else "gpus"
        count, devices, pool, prefix = (
            whole[name] for name in ("count", counted, "pool", "prefix")
        )
        features, domains = _features(whole["features"]), _domains(whole["domains"])
        _check_count("count", count, 1, NODES_MAX)
        _check_count(counted, devices, 0, DEVICES_PER_NODE_MAX)
        is_shared = whole["shared"]
        if not isinstance(is_shared, bool):
            raise ValueError("shared of a group must be true or false")
        if shared.setdefault(str(pool), is_shared) is not is_shared:
            raise ValueError(
                f"some groups of pool {str(pool)!r} are shared and some are not; give GPUs of "
                "which jobs may have parts a pool of their own"
            )
        width = max(3, len(str(count)))
        names = [f"{prefix}{number:0{width}d}" for number in range(1, count + 1)]
        if not all(_NAME.fullmatch(name) for name in (names[-1], str(pool))):
            raise ValueError(f"{prefix!r} and {pool!r} must be letters, digits, '.', '_' and '-'")
        for name in names:
            node = Node(
                name,
                str(pool),
                devices,
                is_real=False,
                features=features,
                domains=domains,
                device=device,
            )
            nodes.extend(node.device_by_device() if is_shared else (node,))
            if len(nodes) > NODES_MAX:
                raise ValueError(f"at most {NODES_MAX:,} nodes; a shared GPU counts as one")
    if len({node.name for node in nodes}) != len(nodes):
        raise ValueError("no name twice among nodes: give groups own prefixes")
    return tuple(nodes)


def _check_cores(group: Mapping[str, Any]) -> None:
    """Raise ValueError for a group with cores that has invalid fields, or lacks its pool."""
    if not group.keys().isdisjoint(("gpus", "shared", "domains")):
        raise ValueError("a group of nodes with cores has neither gpus nor domains, nor is shared")
    if "pool" not in group:
        raise ValueError("a group of nodes with cores must name its pool")


def _features(value: object) -> tuple[str, ...]:
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


def _domains(value: object) -> Mapping[str, str]:
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


def _folders(name: str, value: object) -> tuple[str, ...]:
    if (
        not isinstance(value, list | tuple)
        or len(value) > FOLDERS_MAX
        or not all(isinstance(path, str) and os.path.isabs(path) for path in value)
    ):
        raise ValueError(f"option {name} must be a list of at most {FOLDERS_MAX} absolute paths")
    return tuple(dict.fromkeys(os.path.realpath(path) for path in value))


def _limits(value: object) -> Mapping[str, int]:
    if not isinstance(value, Mapping) or not set(value) <= set(_LIMITS):
        raise ValueError(f"option limits has {', '.join(_LIMITS)}, nothing else")
    for name, (_, most) in _LIMITS.items():
        if name in value:
            _check_count(name, value[name], 16, most)
    return {name: value.get(name, default) for name, (default, _) in _LIMITS.items()}


def _uids(value: object) -> tuple[int, int]:
    match value:
        case [int(first), int(last)] if UID_MIN <= first <= last <= UID_MAX:
            return first, last
    raise ValueError(f"option uids must be [first, last], from {UID_MIN} to {UID_MAX}")


def _check_count(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"option {name} must be a whole number from {least} to {most}")


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
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    try:
        answer = subprocess.run(  # noqa: S603 - a fixed command without input
            [command, "--query-gpu=index", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_NVIDIA_SMI_TIMEOUT_S,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterUnavailable(f"nvidia-smi did not answer: {error}") from error
    if answer.returncode in _NVIDIA_SMI_NO_GPU:
        return 0
    if answer.returncode != 0:
        # A failure does not mean "no GPUs": virtual nodes would replace the real one for a while.
        raise ClusterUnavailable(f"nvidia-smi failed: {(answer.stderr or answer.stdout)[:500]}")
    return sum(line.strip().isdecimal() for line in answer.stdout.splitlines())
