"""The checks that every connector makes before it contacts its cluster.

They cover keys, environment, script and times. The portal checks requests too. These checks guard
the clusters themselves, because what passes here reaches an exec, a REST body or a manifest.
"""

from __future__ import annotations

import re

from connectors.errors import WorkloadRejected
from connectors.protocol import Workload

SCRIPT_BYTES_MAX = 1 << 20
RANKS_MAX = 4096
ARGUMENTS_MAX = 1000
ARGUMENTS_BYTES_MAX = 32 << 10
PATH_CHARACTERS_MAX = 1024
ENVIRONMENT_ENTRIES_MAX = 1024
#: Linux takes at most 128 KiB for one "KEY=value" string (MAX_ARG_STRLEN).
ENVIRONMENT_ENTRY_BYTES_MAX = 64 << 10
ENVIRONMENT_BYTES_MAX = 512 << 10
GRACE_S_MAX = 86_400
TIME_LIMIT_S_MAX = 366 * 86_400

#: Signals that a job may choose for its notice. KILL and STOP cannot be caught.
NOTICE_SIGNALS = frozenset({"HUP", "INT", "QUIT", "TERM", "USR1", "USR2"})

#: Set by the connectors themselves for every rank, so no workload may bring its own.
RESERVED_ENVIRONMENT = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NNODES",
        "NODE_RANK",
        "NVIDIA_VISIBLE_DEVICES",
        "RANK",
        "TIDEGATE_CPUS_PER_NODE",
        "TIDEGATE_GPUS_PER_NODE",
        "TIDEGATE_GPU_SLOTS",
        "TIDEGATE_NODE",
        "TIDEGATE_OUTPUT_DIR",
        "TIDEGATE_PLACES",
        "TIDEGATE_PRIVATE",
        "TIDEGATE_PROGRAMS",
        "TIDEGATE_PYTHON",
        "TIDEGATE_POD_INDEX",
        "TIDEGATE_TRACE",
        "WORLD_SIZE",
    }
)

#: Variables that change how the shell, the loader or Slurm's commands behave before the script
#: runs.
_DENIED_ENVIRONMENT = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND"})
_DENIED_ENVIRONMENT_PREFIXES = ("LD_", "SLURM_", "SBATCH_")

FEATURES_MAX = 16
IMAGE_CHARACTERS_MAX = 512

_FEATURE = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_IMAGE = re.compile(rf"[!-~]{{1,{IMAGE_CHARACTERS_MAX}}}")
#: Variables that scripts for Slurm's arrays read. The portal sets them for tasks of its own arrays.
#: The array's id is not among them: tools would pass it to Slurm, which numbers arrays differently.
ARRAY_ENVIRONMENT = frozenset(
    {
        "SLURM_ARRAY_TASK_COUNT",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_ARRAY_TASK_MAX",
        "SLURM_ARRAY_TASK_MIN",
    }
)

_KEY = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_ENVIRONMENT_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}", re.ASCII)


def is_key(key: str) -> bool:
    """Return whether `key` is 1 to 64 of a-z, 0-9 and "-"."""
    return _KEY.fullmatch(key) is not None


def check_key(key: str) -> str:
    """Return `key`. Raises WorkloadRejected unless it is 1 to 64 of a-z, 0-9 and "-"."""
    if not is_key(key):
        raise WorkloadRejected(
            f"{key[:80]!r} is no workload key; use 1 to 64 characters out of a-z, 0-9 and '-'"
        )
    return key


def check_workload(workload: Workload, *, takes_manifests: bool = False) -> None:
    """Raise WorkloadRejected, saying what to change, for a workload that no cluster may get.

    A cluster that `takes_manifests` may get Kubernetes manifests, too.
    """
    check_key(workload.key)
    if workload.is_manifest and not takes_manifests:
        raise WorkloadRejected("this cluster runs no Kubernetes manifests; choose one that does")
    for field in ("name", "pool", "user", "script"):
        _check_text(field, getattr(workload, field))
    if len(workload.script.encode()) > SCRIPT_BYTES_MAX:
        raise WorkloadRejected(f"the script is larger than {SCRIPT_BYTES_MAX} bytes")
    if not 1 <= len(workload.slots) <= RANKS_MAX:
        raise WorkloadRejected(f"a workload has 1 to {RANKS_MAX} ranks, not {len(workload.slots)}")
    for rank, slot in enumerate(workload.slots):
        if slot.mgpu < 0:
            raise WorkloadRejected(f"rank {rank} asks for {slot.mgpu} milli-GPU")
    _check_nodes(workload)
    _check_arguments(workload)
    _check_files(workload)
    _check_times(workload)
    _check_environment(workload)


def _check_nodes(workload: Workload) -> None:
    if len(workload.features) > FEATURES_MAX:
        raise WorkloadRejected(f"more than {FEATURES_MAX} features")
    for feature in workload.features:
        if not _FEATURE.fullmatch(feature):
            raise WorkloadRejected(
                f"{feature[:80]!r} is no feature of a node; use letters, digits, '.', '_' and '-'"
            )
    if workload.image is not None and not _IMAGE.fullmatch(workload.image):
        raise WorkloadRejected(
            f"an image is 1 to {IMAGE_CHARACTERS_MAX} printable ASCII characters without spaces"
        )


def _check_arguments(workload: Workload) -> None:
    if len(workload.arguments) > ARGUMENTS_MAX:
        raise WorkloadRejected(f"the script has more than {ARGUMENTS_MAX} arguments")
    for argument in workload.arguments:
        _check_text("script's arguments", argument)
    if sum(len(argument.encode()) for argument in workload.arguments) > ARGUMENTS_BYTES_MAX:
        raise WorkloadRejected(f"the script's arguments have more than {ARGUMENTS_BYTES_MAX} bytes")


def _check_files(workload: Workload) -> None:
    files = workload.files
    # Without a file nobody uses them.
    values = files.values.values() if files.output or files.error else ()
    for what, path in (
        ("working folder", files.folder),
        ("file of the output", files.output),
        ("file of the errors", files.error),
        *(("value in a file's name", value) for value in values),
    ):
        if path is None:
            continue
        _check_text(what, path)
        if not path or len(path) > PATH_CHARACTERS_MAX or not path.isprintable():
            raise WorkloadRejected(
                f"the {what} is 1 to {PATH_CHARACTERS_MAX:,} printable characters"
            )


def _check_text(what: str, text: str) -> None:
    if "\0" in text:
        raise WorkloadRejected(f"the {what} contains a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WorkloadRejected(f"the {what} is not valid Unicode: {error.reason}") from None


def _check_times(workload: Workload) -> None:
    limit_s = workload.time_limit_s
    if limit_s is not None and not 1 <= limit_s <= TIME_LIMIT_S_MAX:
        raise WorkloadRejected(f"a time limit is 1 to {TIME_LIMIT_S_MAX} seconds, not {limit_s}")
    if not 0 <= workload.grace_s <= GRACE_S_MAX:
        raise WorkloadRejected(f"a grace is 0 to {GRACE_S_MAX} seconds, not {workload.grace_s}")
    ahead_s = workload.signal_ahead_s
    if ahead_s is not None and not 0 <= ahead_s <= TIME_LIMIT_S_MAX:
        raise WorkloadRejected(
            f"a notice comes 0 to {TIME_LIMIT_S_MAX} seconds before the time limit, not {ahead_s}"
        )
    if workload.notice_signal not in NOTICE_SIGNALS:
        allowed = ", ".join(sorted(NOTICE_SIGNALS))
        raise WorkloadRejected(f"the notice signal must be one of {allowed}")


def _check_environment(workload: Workload) -> None:
    variables = {**workload.environment, **workload.private_environment}
    if len(variables) > ENVIRONMENT_ENTRIES_MAX:
        raise WorkloadRejected(f"more than {ENVIRONMENT_ENTRIES_MAX} environment variables")
    total_bytes = 0
    for key, value in variables.items():
        if not _ENVIRONMENT_KEY.fullmatch(key):
            raise WorkloadRejected(
                f"{key[:80]!r} is no environment variable name; use letters, digits and '_'"
            )
        if key in RESERVED_ENVIRONMENT:
            raise WorkloadRejected(f"{key} is set by the cluster; remove it from the environment")
        if key in _DENIED_ENVIRONMENT or (
            key.startswith(_DENIED_ENVIRONMENT_PREFIXES) and key not in ARRAY_ENVIRONMENT
        ):
            raise WorkloadRejected(f"{key} may not be set for a job; set it inside the script")
        _check_text(f"environment variable {key}", value)
        entry_bytes = len(key) + len(value.encode()) + 2
        if entry_bytes > ENVIRONMENT_ENTRY_BYTES_MAX:
            raise WorkloadRejected(
                f"environment variable {key} is larger than {ENVIRONMENT_ENTRY_BYTES_MAX} bytes"
            )
        total_bytes += entry_bytes
    if total_bytes > ENVIRONMENT_BYTES_MAX:
        raise WorkloadRejected(f"the environment is larger than {ENVIRONMENT_BYTES_MAX} bytes")
