"""The options of a Slurm cluster, and how they are checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from connectors.options import (
    Path,
    checked,
    constants,
    declared_names,
    described,
    device_kind,
    listed,
    option,
    optional,
    pools,
    read_record,
    refusal,
    text,
    whole,
    without_null_device,
)
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.naming import team_path
from connectors.slurm.tres import CORES
from connectors.software import shared_folders_option, software_option
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
_CPUS_MAX = 1_024
_MEMORY_MB_MAX = 1 << 30
#: Names that Slurm accepts for partitions, GRES types, accounts, QoS and UNIX users alike.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,32}", re.ASCII)
_CONSTRAINT = re.compile(r"[A-Za-z0-9._&|()*\[\]-]{1,200}", re.ASCII)
_PATH_TEXT = re.compile(r"/[A-Za-z0-9._/@+{}-]{0,500}", re.ASCII)
_SEARCH_PATH = re.compile(r"[A-Za-z0-9._/@+:-]{1,2000}", re.ASCII)


def runs_images(options: Mapping[str, Any]) -> bool:
    """Return whether a cluster with these options runs images. Other options may be invalid."""
    return options.get("containers") == PYXIS


def is_name(value: object) -> bool:
    """Return whether `value` can name a UNIX user, a partition, an account or a QoS."""
    return _matches(_NAME, value)


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _url(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f'option {option} must be the address of slurmrestd, "http://host:port"')
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError(f'option {option} must be like "http://host:6820", without user and query')
    return value.rstrip("/")


def _name(option: str, value: object) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise ValueError(f"option {option} must be letters, digits, '.', '_' and '-'")
    return value


def _prefix(option: str, value: object) -> str:
    if not isinstance(value, str) or not _PREFIX.fullmatch(value):
        raise ValueError(f"option {option} must be at most 32 letters, digits, '.', '_' and '-'")
    return value


def _path_of_user(option: str, value: object) -> str:
    return _path(option, value, may_hold_user=True)


def _fixed_path(option: str, value: object) -> str:
    return _path(option, value, may_hold_user=False)


def _path(option: str, value: object, *, may_hold_user: bool) -> str:
    if not isinstance(value, str) or not _PATH_TEXT.fullmatch(value):
        raise ValueError(f"option {option} must be an absolute path without spaces")
    fixed = value.replace(USER_FIELD, "") if may_hold_user else value
    if "{" in fixed or "}" in fixed:
        raise ValueError(f"option {option} may hold no braces but, where it varies, {USER_FIELD}")
    if ".." in value.split("/"):
        raise ValueError(f"option {option} may not hold '..'")
    return os.path.normpath(value)


def _search_path(option: str, value: object) -> str:
    if not isinstance(value, str) or not _SEARCH_PATH.fullmatch(value):
        raise ValueError(f"option {option} must be directories with ':' between them")
    return value


def _api_version(option: str, value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and value in DIALECTS):
        raise ValueError(f"option {option} must be null or one of {', '.join(DIALECTS)}")
    return value


def _containers(option: str, value: object) -> bool:
    if value is not None and value != PYXIS:
        raise ValueError(f'option {option} must be null or "{PYXIS}"')
    return value == PYXIS


def _constraint(option: str, value: object) -> str:
    if not isinstance(value, str) or not _matches(_CONSTRAINT, value):
        raise ValueError(f"option {option} must be features with '&' or '|'")
    return value


def _tag_secret(option: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"option {option} must be a text")
    return _checked_secret(value.encode())


def _checked_secret(secret: bytes) -> bytes:
    if not _SECRET_BYTES_MIN <= len(secret) <= _SECRET_BYTES_MAX:
        raise ValueError(
            f"the tag secret must have {_SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX} bytes"
        )
    return secret


@dataclass(frozen=True, slots=True)
class SlurmPool:
    """The request of a pool on the cluster.

    A pool of CPU cores has the `gres_type` `tres.CORES`, and its devices are the CPUs (as Slurm
    counts them) of the partition's nodes, which have no GPUs. Memory is requested with each core;
    None means the cluster's own default.
    """

    partition: str = option(text(_name), title="Partition", example="gpu")
    gres_type: str = option(
        optional(text(_name)),
        title="GPU type",
        help="Its name in gres.conf.",
        example="h100",
        default=None,
        when={"device": [None]},
        is_needed=True,
    )
    constraint: str | None = option(
        optional(text(_constraint)),
        title="Features",
        help="Nodes must have them.",
        example="ib&nvlink",
        default=None,
    )
    memory_mb_per_core: int | None = option(
        optional(whole(1, _MEMORY_MB_MAX)),
        title="MiB per core",
        help="Default: the cluster's own.",
        default=None,
        when={"device": [DeviceKind.CPU]},
    )
    device: DeviceKind = option(device_kind(), title="Devices", default=None)


def _pools(path: Path, value: object) -> Mapping[str, SlurmPool]:
    if not isinstance(value, Mapping) or not 1 <= len(value) <= POOLS_MAX:
        raise refusal(
            path, 'option pools must be like {"h100": {"partition": "gpu", "gres_type": "h100"}}'
        )
    found = {name: _pool((*path, str(name)), name, each) for name, each in value.items()}
    types = [pool.gres_type for pool in found.values()]
    if types.count(CORES) > 1:
        raise refusal(path, "two pools are of CPU cores; the nodes without GPUs are one pool")
    if len(set(types)) != len(types):
        # Nodes and native jobs are assigned to pools by their GPU type alone.
        raise refusal(path, "two pools have the same gres_type; one type of GPU is one pool")
    return found


_GPU_ONLY = frozenset({"gres_type"})
_CORES_ONLY = frozenset({"device", "memory_mb_per_core"})


def _pool(path: Path, name: object, given: object) -> SlurmPool:
    if not is_name(name):
        raise refusal(path, f"{name!r} is no name of a pool: use letters, digits, '.', '_', '-'")
    if not isinstance(given, Mapping):
        raise refusal(path, f"pool {name} must be an object, nothing else")
    given = without_null_device(given)
    has_cores = given.get("device") == DeviceKind.CPU
    if not has_cores and "device" in given:
        raise refusal(
            (*path, "device"),
            f'pool {name} has device "cpu" or none; a pool of GPUs has no device but a gres_type',
        )
    known = declared_names(SlurmPool) - (_GPU_ONLY if has_cores else _CORES_ONLY)
    if strange := sorted(str(each)[:100] for each in given if each not in known):
        raise refusal(
            (*path, strange[0]),
            f"pool {name} has {', '.join(sorted(known))}, nothing else (not "
            f"{', '.join(strange[:10])})",
        )
    pool = SlurmPool(**read_record(SlurmPool, given, "unknown option of a pool", path))
    if has_cores:
        return SlurmPool(
            pool.partition, CORES, pool.constraint, pool.memory_mb_per_core, pool.device
        )
    if pool.gres_type is None:
        raise refusal(
            (*path, "gres_type"),
            f"option pools.{name}.gres_type must be the type of its GPUs in gres.conf",
        )
    return pool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """The checked options. The order of the fields is that of forms."""

    url: str = option(
        text(_url),
        title="Address of slurmrestd",
        help="As the portal reaches it. The operator lists it in TIDEGATE_SLURM_ORIGINS.",
        example="http://slurm-head:6820",
    )
    service_user: str = option(
        text(_name),
        title="Service user",
        help="The UNIX user that reads, releases and cancels: a Slurm operator. To push quotas and "
        "drain nodes it must be a Slurm administrator.",
        example="tidegate",
    )
    token_socket: str = option(
        text(_fixed_path),
        title="Socket of the minter",
        help="The minter holds the cluster's key and issues short-lived tokens. The operator lists "
        "its socket in TIDEGATE_SLURM_MINTERS.",
        example="/run/tidegate/minter.sock",
    )
    tag_secret_file: str | None = option(
        optional(text(_fixed_path)),
        title="File with the tag secret",
        help="At least 16 bytes that only the portal can read. The portal signs its jobs with it.",
        example="/etc/tidegate/slurm-tag-secret",
        default=None,
    )
    tag_secret: bytes = option(
        optional(text(_tag_secret)),
        title="Tag secret",
        help="Instead of a file. It is never shown again.",
        default=None,
        is_secret=True,
    )
    pools: Mapping[str, SlurmPool] = option(
        pools(_pools, SlurmPool, POOLS_MAX),
        title="Pools",
        help="The portal's pools that this cluster has.",
    )
    output_root: str | None = option(
        optional(text(_path_of_user)),
        title="Folder for outputs",
        help="On a file system that nodes and portal share; {user} stands for the user. Without "
        "it, outputs stay in the working directory and cannot be shown here.",
        example="/shared/tidegate/{user}",
        default=None,
    )
    working_directory: str = option(
        text(_path_of_user),
        title="Working directory",
        help="Scripts start here; {user} stands for the user.",
        default=f"/home/{USER_FIELD}",
    )
    settle_s: int = option(
        described(
            whole(0, _SETTLE_S_MAX),
            anyOf=[
                *constants(((SETTLE_S_STRICT, "Strict"), (0, "Fast"))),
                {"title": "Other", "type": "integer", "minimum": 0, "maximum": _SETTLE_S_MAX},
            ],
        ),
        title="Start of jobs",
        help="Strict: a job starts when the controller has saved it, after about 8 s. Fast: at "
        "once; a controller that crashes in these seconds may lose the job, which starts again. "
        "Other: seconds until the release.",
        default=SETTLE_S_STRICT,
    )
    api_version: str | None = option(
        checked(
            _api_version,
            {"oneOf": constants(((None, "Newest"), *((one, one) for one in DIALECTS)))},
        ),
        title="API version",
        help="Newest: the newest that both sides know.",
        default=None,
        is_more=True,
    )
    cluster_name: str | None = option(
        optional(text(_name)),
        title="Name in the accounting",
        help="Needed if slurmdbd keeps several clusters.",
        default=None,
        is_more=True,
    )
    account_prefix: str = option(
        text(_prefix),
        title="Prefix of accounts",
        help="Begins the names of the teams' accounts.",
        default="",
        is_more=True,
    )
    qos_prefix: str = option(
        text(_prefix),
        title="Prefix of QoS",
        help="Begins the QoS of guaranteed starts.",
        default="g-",
        is_more=True,
    )
    borrow_qos: str = option(
        text(_name),
        title="QoS of borrowed starts",
        help="Guaranteed starts may preempt it.",
        default="tg-borrow",
        is_more=True,
    )
    cpus_per_gpu: int | None = option(
        optional(whole(1, _CPUS_MAX)),
        title="Cores per GPU",
        help="Default: the cluster's own.",
        default=None,
        is_more=True,
    )
    memory_mb_per_gpu: int | None = option(
        optional(whole(1, _MEMORY_MB_MAX)),
        title="MiB of memory per GPU",
        help="Default: the cluster's own.",
        default=None,
        is_more=True,
    )
    log_cap_bytes: int = option(
        whole(0, LOG_CAP_BYTES_MAX),
        title="Bytes of each output that are shown",
        help="Of each stream of each rank. Default: 16 MiB.",
        default=LOG_CAP_BYTES,
        is_more=True,
    )
    runs_images: bool = option(
        checked(_containers, {"oneOf": constants(((None, "None"), (PYXIS, "Pyxis")))}),
        name="containers",
        title="Container images",
        help="Pyxis: srun has NVIDIA's plugin. None: jobs with an image run on other clusters.",
        default=None,
        is_more=True,
    )
    container_mounts: tuple[str, ...] = option(
        listed(
            text(_path_of_user),
            MOUNTS_MAX,
            f'must be a list of at most {MOUNTS_MAX} directories, like ["/data", '
            f'"/scratch/{USER_FIELD}"]',
        ),
        title="Folders that containers see",
        help="Besides the working directory and the outputs; {user} stands for the user.",
        example=["/data", "/scratch/{user}"],
        default=[],
        is_more=True,
    )
    path: str = option(
        text(_search_path),
        title="PATH of the jobs",
        help="It must contain the Slurm commands.",
        default=PATH,
        is_more=True,
    )
    software: tuple[str, ...] | None = software_option()
    shared_folders: tuple[str, ...] | None = shared_folders_option()

    @property
    def gpu_pools(self) -> Mapping[str, SlurmPool]:
        """The pools of GPUs."""
        return {name: pool for name, pool in self.pools.items() if pool.device is DeviceKind.GPU}

    def output_directory(self, user: str) -> str:
        """Return the output directory of the ranks of `user`."""
        return (self.output_root or self.working_directory).replace(USER_FIELD, user)


def parse_options(options: Mapping[str, Any], *, reads_secret: bool = True) -> SlurmOptions:
    """Return checked options. Raises OptionsRefused, saying what is wrong, for invalid ones.

    Unless `reads_secret`, the file with the tag secret is not opened and `tag_secret` is b"".
    Processes that sign nothing do not need access to it.
    """
    found = read_record(SlurmOptions, options, "unknown options of a Slurm cluster")
    _check_borrow_qos(found["borrow_qos"], found["qos_prefix"], found["account_prefix"])
    secret, file = found["tag_secret"], found["tag_secret_file"]
    if (secret is None) == (file is None):
        raise refusal(
            ("tag_secret_file",),
            "a Slurm cluster has either option tag_secret or option tag_secret_file",
        )
    if file is not None:
        found["tag_secret"] = _secret_in(file) if reads_secret else b""
    return SlurmOptions(**found)


def _check_borrow_qos(name: str, qos_prefix: str, account_prefix: str) -> None:
    if name.lower() == _DEFAULT_QOS:
        raise refusal(
            ("borrow_qos",),
            f"option borrow_qos may not be {_DEFAULT_QOS}: everybody's jobs have that QoS, and "
            "would all be pushed aside with those that borrow",
        )
    team = team_path(name.removeprefix(qos_prefix), account_prefix)
    if name.startswith(qos_prefix) and team is not None and "/" in team:
        raise refusal(
            ("borrow_qos",),
            f"option borrow_qos may not be {name}: that is the QoS of what team {team} is "
            "guaranteed, see option qos_prefix",
        )


def _secret_in(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return _checked_secret(file.read(_SECRET_BYTES_MAX + 1).strip())
    except OSError as error:
        problem = f"option tag_secret_file cannot be read: {error}"
        raise refusal(("tag_secret_file",), problem) from None
