"""The checked options of a Slurm cluster.

A "?" marks a key of a pool that may be missing.

    url               address of slurmrestd, "http://..." or "https://..."
    service_user      UNIX user whose tokens read, release and cancel; an Operator of the cluster
    token_socket      Unix socket of the minter (see `connectors.slurm.minter`)
    tag_secret        secret that signs the tags of our jobs, or instead of it:
    tag_secret_file   a file with the secret
    pools             {pool: {"partition", "gres_type", "constraint"?}}. One pool may be of CPU
                      cores: {"partition", "device": "cpu", "memory_mb_per_core"?, "constraint"?}.
                      Its devices are the CPUs (as Slurm counts them) of the partition's nodes,
                      which have no GPUs. memory_mb_per_core are the MiB requested with each core
    containers        "pyxis": srun takes container images (NVIDIA's plugin for it); null
                      (default): the cluster runs none, and never gets a job that names one
    container_mounts  directories that containers see as the nodes do, besides the working
                      directory and the outputs; may contain "{user}"; none by default
    output_root       directory where ranks leave their output and exit codes, as the nodes and
                      the portal see it; may contain "{user}". null: outputs stay in the working
                      directory and the portal cannot show them
    working_directory where scripts start; may contain "{user}"; "/home/{user}" by default
    settle_s          seconds; default 7: an accepted job is released only when the controller
                      has saved it. With 0 it is released at once, and a controller that crashes
                      in these seconds may lose the job
    api_version       "v0.0.NN"; null (default): the newest that both sides know
    account_prefix    prefix of the names of accounts; "" by default
    qos_prefix        prefix of the QoS of an account; "g-" by default
    cluster_name      the cluster's name in its accounting; null (default): the only one there
    borrow_qos        QoS of jobs that exceed their team's guarantee; "tg-borrow" by default;
                      neither "normal" nor a team's
    cpus_per_gpu      cores requested with each GPU; null (default): the cluster's own default
    memory_mb_per_gpu MiB requested with each GPU; null (default): the cluster's own default
    log_cap_bytes     bytes of each stream of each rank that are shown; 16 MiB by default
    path              PATH of the jobs; must contain the Slurm commands
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from connectors.slurm.dialects import DIALECTS
from connectors.slurm.naming import team_path
from connectors.slurm.tres import CORES
from primitives.units import DeviceKind

LOG_CAP_BYTES = 16 << 20
LOG_CAP_BYTES_MAX = 1 << 40
SETTLE_S_STRICT = 7
PATH = "/usr/local/bin:/usr/bin:/bin"
POOLS_MAX = 100
MOUNTS_MAX = 20
PYXIS = "pyxis"
USER_FIELD = "{user}"
#: The QoS that Slurm creates itself and gives to every job without another one.
_DEFAULT_QOS = "normal"

_SECRET_BYTES_MIN = 16
_SECRET_BYTES_MAX = 4_096
_SETTLE_S_MAX = 600
_KNOWN = frozenset(
    {
        *("url", "service_user", "token_socket", "tag_secret", "tag_secret_file", "pools"),
        *("output_root", "working_directory", "settle_s", "api_version", "account_prefix"),
        *("qos_prefix", "borrow_qos", "cpus_per_gpu", "memory_mb_per_gpu", "log_cap_bytes"),
        *("path", "cluster_name", "containers", "container_mounts"),
    }
)
_POOL_KNOWN = frozenset({"partition", "gres_type", "constraint"})
_POOL_OF_CORES_KNOWN = frozenset({"partition", "device", "memory_mb_per_core", "constraint"})
_MEMORY_MB_MAX = 1 << 30
#: Names that Slurm accepts for partitions, GRES types, accounts, QoS and UNIX users alike.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,32}", re.ASCII)
_CONSTRAINT = re.compile(r"[A-Za-z0-9._&|()*\[\]-]{1,200}", re.ASCII)
_PATH_TEXT = re.compile(r"/[A-Za-z0-9._/@+{}-]{0,500}", re.ASCII)
_SEARCH_PATH = re.compile(r"[A-Za-z0-9._/@+:-]{1,2000}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SlurmPool:
    """The request of a pool on the cluster.

    A pool of CPU cores has the type `tres.CORES`. `memory_mb_per_core` is requested with each core;
    None means the cluster's own default.
    """

    partition: str
    gres_type: str
    constraint: str | None
    memory_mb_per_core: int | None = None

    @property
    def device(self) -> DeviceKind:
        """The kind of its devices."""
        return DeviceKind.CPU if self.gres_type == CORES else DeviceKind.GPU


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """Checked options; see the module's docstring."""

    url: str
    service_user: str
    token_socket: str
    tag_secret: bytes
    pools: Mapping[str, SlurmPool]
    output_root: str | None
    working_directory: str
    settle_s: int
    api_version: str | None
    account_prefix: str
    qos_prefix: str
    cluster_name: str | None
    borrow_qos: str
    cpus_per_gpu: int | None
    memory_mb_per_gpu: int | None
    log_cap_bytes: int
    path: str
    runs_images: bool
    container_mounts: tuple[str, ...]

    @property
    def gpu_pools(self) -> Mapping[str, SlurmPool]:
        """The pools of GPUs."""
        return {name: pool for name, pool in self.pools.items() if pool.device is DeviceKind.GPU}

    def output_directory(self, user: str) -> str:
        """Return the output directory of the ranks of `user`."""
        return (self.output_root or self.working_directory).replace(USER_FIELD, user)


def parse_options(options: Mapping[str, Any], *, reads_secret: bool = True) -> SlurmOptions:
    """Return checked options. Raises ValueError, saying what is wrong, for invalid ones.

    Unless `reads_secret`, the file with the tag secret is not opened and `tag_secret` is b"".
    Processes that sign nothing do not need access to it.
    """
    if unknown := sorted(map(str, set(options) - _KNOWN)):
        raise ValueError(f"unknown options of a Slurm cluster: {', '.join(unknown)}")
    version: str | None = options.get("api_version")
    if version is not None and version not in DIALECTS:
        raise ValueError(f"option api_version must be null or one of {', '.join(DIALECTS)}")
    output_root = options.get("output_root")
    account_prefix = _prefix("account_prefix", options.get("account_prefix", ""))
    qos_prefix = _prefix("qos_prefix", options.get("qos_prefix", "g-"))
    return SlurmOptions(
        url=_url(options.get("url")),
        service_user=_name("service_user", options.get("service_user")),
        token_socket=_path("token_socket", options.get("token_socket"), may_hold_user=False),
        tag_secret=_secret(options, reads_file=reads_secret),
        pools=_pools(options.get("pools")),
        output_root=None if output_root is None else _path("output_root", output_root),
        working_directory=_path(
            "working_directory", options.get("working_directory", f"/home/{USER_FIELD}")
        ),
        settle_s=_count("settle_s", options.get("settle_s", SETTLE_S_STRICT), 0, _SETTLE_S_MAX),
        api_version=version,
        account_prefix=account_prefix,
        qos_prefix=qos_prefix,
        cluster_name=_name_or_none("cluster_name", options.get("cluster_name")),
        borrow_qos=_borrow_qos(options.get("borrow_qos", "tg-borrow"), qos_prefix, account_prefix),
        cpus_per_gpu=_count_or_none("cpus_per_gpu", options.get("cpus_per_gpu"), 1_024),
        memory_mb_per_gpu=_count_or_none(
            "memory_mb_per_gpu", options.get("memory_mb_per_gpu"), 1 << 30
        ),
        log_cap_bytes=_count(
            "log_cap_bytes", options.get("log_cap_bytes", LOG_CAP_BYTES), 0, LOG_CAP_BYTES_MAX
        ),
        path=_search_path(options.get("path", PATH)),
        runs_images=_containers(options.get("containers")),
        container_mounts=_mounts(options.get("container_mounts", [])),
    )


def runs_images(options: Mapping[str, Any]) -> bool:
    """Return whether a cluster with these options runs images. Other options may be invalid."""
    return options.get("containers") == PYXIS


def is_name(value: object) -> bool:
    """Return whether `value` can name a UNIX user, a partition, an account or a QoS."""
    return _matches(_NAME, value)


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _url(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError('option url must be the address of slurmrestd, "http://host:port"')
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError('option url must be like "http://host:6820", without user and query')
    return value.rstrip("/")


def _name(option: str, value: object) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise ValueError(f"option {option} must be letters, digits, '.', '_' and '-'")
    return value


def _borrow_qos(value: object, qos_prefix: str, account_prefix: str) -> str:
    name = _name("borrow_qos", value)
    if name.lower() == _DEFAULT_QOS:
        raise ValueError(
            f"option borrow_qos may not be {_DEFAULT_QOS}: everybody's jobs have that QoS, and "
            "would all be pushed aside with those that borrow"
        )
    team = team_path(name.removeprefix(qos_prefix), account_prefix)
    if name.startswith(qos_prefix) and team is not None and "/" in team:
        raise ValueError(
            f"option borrow_qos may not be {name}: that is the QoS of what team {team} is "
            "guaranteed, see option qos_prefix"
        )
    return name


def _name_or_none(option: str, value: object) -> str | None:
    return None if value is None else _name(option, value)


def _prefix(option: str, value: object) -> str:
    if not isinstance(value, str) or not _PREFIX.fullmatch(value):
        raise ValueError(f"option {option} must be at most 32 letters, digits, '.', '_' and '-'")
    return value


def _path(option: str, value: object, *, may_hold_user: bool = True) -> str:
    if not isinstance(value, str) or not _PATH_TEXT.fullmatch(value):
        raise ValueError(f"option {option} must be an absolute path without spaces")
    fixed = value.replace(USER_FIELD, "") if may_hold_user else value
    if "{" in fixed or "}" in fixed:
        raise ValueError(f"option {option} may hold no braces but, where it varies, {USER_FIELD}")
    if ".." in value.split("/"):
        raise ValueError(f"option {option} may not hold '..'")
    return os.path.normpath(value)


def _search_path(value: object) -> str:
    if not isinstance(value, str) or not _SEARCH_PATH.fullmatch(value):
        raise ValueError("option path must be directories with ':' between them")
    return value


def _containers(value: object) -> bool:
    if value is not None and value != PYXIS:
        raise ValueError(f'option containers must be null or "{PYXIS}"')
    return value == PYXIS


def _mounts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOUNTS_MAX:
        raise ValueError(
            f"option container_mounts must be a list of at most {MOUNTS_MAX} directories, like "
            '["/data", "/scratch/{user}"]'
        )
    return tuple(_path("container_mounts", one) for one in value)


def _secret(options: Mapping[str, Any], *, reads_file: bool) -> bytes:
    text, path = options.get("tag_secret"), options.get("tag_secret_file")
    if (text is None) == (path is None):
        raise ValueError("a Slurm cluster has either option tag_secret or option tag_secret_file")
    if path is not None:
        name = _path("tag_secret_file", path, may_hold_user=False)
        if not reads_file:
            return b""
        try:
            with open(name, "rb") as file:
                secret = file.read(_SECRET_BYTES_MAX + 1).strip()
        except OSError as error:
            raise ValueError(f"option tag_secret_file cannot be read: {error}") from None
    elif isinstance(text, str):
        secret = text.encode()
    else:
        raise ValueError("option tag_secret must be a text")
    if not _SECRET_BYTES_MIN <= len(secret) <= _SECRET_BYTES_MAX:
        raise ValueError(
            f"the tag secret must have {_SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX} bytes"
        )
    return secret


def _pools(value: object) -> Mapping[str, SlurmPool]:
    if not isinstance(value, Mapping) or not 1 <= len(value) <= POOLS_MAX:
        raise ValueError(
            'option pools must be like {"h100": {"partition": "gpu", "gres_type": "h100"}}'
        )
    pools: dict[str, SlurmPool] = {}
    for pool, settings in value.items():
        if not isinstance(pool, str) or not is_name(pool):
            raise ValueError(f"{pool!r} is no name of a pool: use letters, digits, '.', '_', '-'")
        if isinstance(settings, Mapping) and "device" in settings:
            pools[pool] = _pool_of_cores(pool, settings)
            continue
        if not isinstance(settings, Mapping) or set(settings) - _POOL_KNOWN:
            raise ValueError(f"pool {pool} has partition, gres_type and constraint, nothing else")
        pools[pool] = SlurmPool(
            partition=_name(f"pools.{pool}.partition", settings.get("partition")),
            gres_type=_name(f"pools.{pool}.gres_type", settings.get("gres_type")),
            constraint=_constraint(pool, settings),
        )
    types = [pool.gres_type for pool in pools.values()]
    if types.count(CORES) > 1:
        raise ValueError("two pools are of CPU cores; the nodes without GPUs are one pool")
    if len(set(types)) != len(types):
        # Nodes and native jobs are assigned to pools by their GPU type alone.
        raise ValueError("two pools have the same gres_type; one type of GPU is one pool")
    return pools


def _pool_of_cores(pool: str, settings: Mapping[str, Any]) -> SlurmPool:
    if settings["device"] != DeviceKind.CPU or set(settings) - _POOL_OF_CORES_KNOWN:
        raise ValueError(
            f'pool {pool} has device "cpu" beside partition, memory_mb_per_core and constraint, '
            "nothing else; a pool of GPUs has no device but a gres_type"
        )
    return SlurmPool(
        partition=_name(f"pools.{pool}.partition", settings.get("partition")),
        gres_type=CORES,
        constraint=_constraint(pool, settings),
        memory_mb_per_core=_count_or_none(
            f"pools.{pool}.memory_mb_per_core", settings.get("memory_mb_per_core"), _MEMORY_MB_MAX
        ),
    )


def _constraint(pool: str, settings: Mapping[str, Any]) -> str | None:
    constraint = settings.get("constraint")
    if constraint is not None and not _matches(_CONSTRAINT, constraint):
        raise ValueError(f"the constraint of pool {pool} must be features with '&' or '|'")
    return constraint


def _count(option: str, value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"option {option} must be a whole number from {least} to {most}")
    return value


def _count_or_none(option: str, value: object, most: int) -> int | None:
    return None if value is None else _count(option, value, 1, most)
