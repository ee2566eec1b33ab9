"""Creates and removes attempts by one rename each."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from batch.variables import BatchJob
from connectors.errors import WorkloadRejected
from connectors.job_folders import OUTPUT_VARIABLE
from connectors.local.allocations import MGPU_PER_DEVICE
from connectors.local.attempt_files import (
    AttemptFiles,
    CorruptRecord,
    boot_id,
    has_ended,
    sync_directory,
    write_bytes,
    write_json,
)
from connectors.local.attempt_spec import AttemptSpec, Slot
from connectors.local.isolation import (
    PRIVATE,
    SYSTEM,
    Isolation,
    Level,
    is_below,
    python_folders,
)
from connectors.local.limits import Limits
from connectors.local.options import LocalOptions, Node
from connectors.local.owners import Owner, owner_of
from connectors.local.run_records import run_record
from connectors.local.sandbox import Sandbox
from connectors.protocol import JobFiles, Outcome, Workload, WorkloadPhase
from primitives.units import DeviceKind

_TIDY_EVERY_S = 3_600
_STAGING_KEPT_S = 3_600
_FORGOTTEN_KEPT_S = 30 * 86_400
_MACHINE_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
_DIRECTORIES = ("attempts", "allocations", "staging", "forgotten", "homes", "trash")


def make_root(root: Path) -> None:
    """Create the directories that are missing. Raises OSError."""
    for name in _DIRECTORIES:
        (root / name).mkdir(mode=0o711, parents=True, exist_ok=True)


def was_forgotten(root: Path, key: str) -> bool:
    """Return whether an attempt with this key existed here and was forgotten."""
    return (root / "forgotten" / key).exists()


def publish_workload(
    options: LocalOptions, nodes: Mapping[str, Node], workload: Workload, isolation: Isolation
) -> None:
    """Create the attempt of `workload`; an existing one of the same key wins.

    Raises WorkloadRejected when it can never run on `nodes`, and OSError.
    """
    owner = owner_of(options, workload, isolation)
    spec = _spec(options, nodes, workload, owner, isolation)
    root = Path(options.root)
    if owner.is_home_given:
        _make_home(owner)
    staged = AttemptFiles(str(_staging(root)))
    for directory in (staged.ranks, staged.logs, staged.work, staged.tmp, staged.view):
        os.mkdir(directory, 0o711)
    os.mkfifo(staged.control, 0o600)
    write_bytes(staged.script, workload.script.encode(), mode=0o500, is_durable=True)
    if spec.batch is not None:
        write_bytes(staged.hosts, _hosts(workload), mode=0o444)
    write_json(staged.spec, spec.to_json(), is_durable=True)
    if (credentials := spec.credentials) is not None:
        for path in (staged.script, staged.work, staged.tmp):
            os.chown(path, credentials.uid, credentials.gid)
    for path in (staged.work, staged.tmp):
        os.chmod(path, 0o700)
    _publish(root, staged, workload.key)


def publish_tombstone(root: Path, key: str) -> bool:
    """Create an attempt that was stopped before it was submitted; False when there is one."""
    staged = AttemptFiles(str(_staging(root)))
    now = int(time.time())
    end: dict[str, object] = {
        "phase": WorkloadPhase.ENDED,
        "native_state": "ended",
        "started_at": None,
        "ended_at": now,
        "released_at": now,
        "outcome": Outcome.STOPPED,
        "exit_codes": {},
        "message": "it was stopped before it was submitted",
    }
    write_json(staged.end, end, is_durable=True)
    return _publish(root, staged, key)


def forget_attempt(root: Path, key: str) -> None:
    """Remove an ended attempt; one that has not ended stays. Raises OSError."""
    files = AttemptFiles(str(root / "attempts" / key))
    if not has_ended(files):
        return
    # The mark comes first, so that a concurrent submit cannot run the attempt again.
    mark = root / "forgotten" / key
    mark.touch(mode=0o600)
    with contextlib.suppress(CorruptRecord, FileNotFoundError):
        if (record := run_record(files)) is not None:
            write_json(str(mark), record, is_durable=True)
    sync_directory(str(root / "forgotten"))
    trash = root / "trash" / f"{key}.{uuid.uuid4().hex}"
    with contextlib.suppress(FileNotFoundError):
        os.rename(files.path, trash)
        shutil.rmtree(trash, ignore_errors=True)


def tidy_sometimes(root: Path) -> None:
    """Call `tidy`, unless some process did so within the last hour.

    The time is kept on the disk, because a connector may be opened for each call.
    """
    mark = root / "tidied"
    try:
        if mark.stat().st_mtime > time.time() - _TIDY_EVERY_S:
            return
    except FileNotFoundError:
        pass
    mark.touch(mode=0o600)
    tidy(root)


def tidy(root: Path) -> None:
    """Remove leftovers of killed processes, and marks older than any late submit."""
    now = time.time()
    for name in os.listdir(root / "trash"):
        shutil.rmtree(root / "trash" / name, ignore_errors=True)
    for directory, kept_s in (("staging", _STAGING_KEPT_S), ("forgotten", _FORGOTTEN_KEPT_S)):
        with os.scandir(root / directory) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat().st_mtime > now - kept_s:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        os.unlink(entry.path)


def _staging(root: Path) -> Path:
    staging = root / "staging" / uuid.uuid4().hex
    staging.mkdir(mode=0o711)
    return staging


def _publish(root: Path, staged: AttemptFiles, key: str) -> bool:
    sync_directory(staged.path)
    try:
        os.rename(staged.path, root / "attempts" / key)
    except OSError as error:
        shutil.rmtree(staged.path, ignore_errors=True)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        raise
    sync_directory(str(root / "attempts"))
    return True


def _make_home(owner: Owner) -> None:
    """Create the folder that all attempts of one person share, for files that outlive them."""
    os.makedirs(owner.home, mode=0o700, exist_ok=True)
    if owner.credentials is not None:
        os.chown(owner.home, owner.credentials.uid, owner.credentials.gid)


def _spec(
    options: LocalOptions,
    nodes: Mapping[str, Node],
    workload: Workload,
    owner: Owner,
    isolation: Isolation,
) -> AttemptSpec:
    files = AttemptFiles(f"{options.root}/attempts/{workload.key}")
    environment = {"PATH": options.path, "HOME": owner.home, "LANG": "C.UTF-8"}
    if owner.name:
        environment |= {"USER": owner.name, "LOGNAME": owner.name}
    if isolation.level is Level.USERS:
        environment["TMPDIR"] = files.tmp
    return AttemptSpec(
        key=workload.key,
        trace=uuid.uuid4().hex,
        boot_id=boot_id(),
        slots=_slots(nodes, workload),
        is_of_cores=nodes[workload.slots[0].node].device is DeviceKind.CPU,
        uses_real_gpus=any(nodes[slot.node].is_real for slot in workload.slots),
        environment={**environment, **workload.environment, OUTPUT_VARIABLE: files.work},
        time_limit_s=workload.time_limit_s,
        notice_signal=signal.Signals[f"SIG{workload.notice_signal}"],
        grace_s=workload.grace_s,
        signal_ahead_s=workload.signal_ahead_s,
        signals_shell_only=workload.signals_shell_only,
        log_cap_bytes=options.log_cap_bytes,
        credentials=owner.credentials,
        batch=_batch_job(workload, files, owner),
        arguments=workload.arguments,
        files=_files(workload, owner),
        sandbox=_sandbox(options, files, owner, workload) if isolation.has_namespaces else None,
        limits=None
        if isolation.level is Level.NONE
        else _rank_limits(options, workload, isolation),
    )


def _files(workload: Workload, owner: Owner) -> JobFiles:
    values = {**workload.files.values, "u": owner.name or workload.user}
    return replace(workload.files, values=values)


def _batch_job(workload: Workload, files: AttemptFiles, owner: Owner) -> BatchJob | None:
    launch = workload.batch
    if launch is None:
        return None
    return BatchJob(
        number=launch.number,
        name=workload.name,
        user=owner.name or workload.user,
        account=workload.team,
        partition=workload.pool,
        folder=files.work,
        qos=launch.qos,
        restarts=launch.restarts,
        array_number=launch.array_number,
        tasks=launch.tasks,
        tasks_per_node=launch.tasks_per_node,
        cpus_per_task=launch.cpus_per_task,
        gpus_per_task=launch.gpus_per_task,
        cpus_per_node=workload.cpus_per_node,
        memory_mib_per_node=workload.memory_mib_per_node,
    )


def _hosts(workload: Workload) -> bytes:
    """Return a hosts file in which the virtual nodes are this machine: scripts look them up."""
    try:
        known = Path("/etc/hosts").read_bytes()
    except OSError:
        known = b"127.0.0.1 localhost\n"
    lines = [f"127.0.0.1 {node}\n" for node in dict.fromkeys(slot.node for slot in workload.slots)]
    return b"".join([known.rstrip(b"\n"), b"\n", *(line.encode() for line in lines)])


def _sandbox(
    options: LocalOptions, files: AttemptFiles, owner: Owner, workload: Workload
) -> Sandbox:
    return Sandbox(
        stage=files.view,
        needs_user_namespace=owner.credentials is None,
        read_only=[*(path for path in SYSTEM if os.path.lexists(path)), *python_folders()],
        writable=options.folders,
        hidden=_outermost([options.root, *options.hidden]),
        own=[*([owner.home] if owner.has_own_home else []), files.work, files.script],
        tmp=files.tmp,
        hosts="" if workload.batch is None else files.hosts,
    )


def _outermost(paths: list[str]) -> list[str]:
    """Return the paths that are below no other path.

    Paths that every job has privately, such as /tmp, are left out.
    """
    told = [path for path in dict.fromkeys(paths) if path not in PRIVATE]
    return [path for path in told if not is_below(path, tuple(one for one in told if one != path))]


def _rank_limits(options: LocalOptions, workload: Workload, isolation: Isolation) -> Limits:
    """Return the limits of a rank. In a cgroup it gets what its job asks for.

    The rank of a batch job has the tasks of all nodes. Without a memory request, a rank still never
    gets all memory of the machine.
    """
    nodes = 1 if workload.batch is None else len(workload.slots)
    memory_bytes = _MACHINE_BYTES - _MACHINE_BYTES // 8
    if workload.memory_mib_per_node is not None:
        memory_bytes = min(memory_bytes, nodes * workload.memory_mib_per_node << 20)
    cpus = workload.cpus_per_node
    return Limits(
        processes=nodes * options.limits["processes"],
        file_bytes=options.limits["file_mib"] << 20,
        open_files=options.limits["open_files"],
        cgroups=isolation.cgroups,
        memory_bytes=memory_bytes,
        cpu_milli=None if cpus is None else nodes * cpus * 1_000,
    )


def _slots(nodes: Mapping[str, Node], workload: Workload) -> tuple[Slot, ...]:
    asked_mgpu: dict[str, int] = {}
    for rank, slot in enumerate(workload.slots):
        node = nodes.get(slot.node)
        if node is None:
            raise WorkloadRejected(f"rank {rank}: this cluster has no node {slot.node[:80]!r}")
        if node.pool != workload.pool:
            raise WorkloadRejected(
                f"rank {rank}: {node.name} is in pool {node.pool}, not in {workload.pool[:80]}"
            )
        if slot.mgpu % MGPU_PER_DEVICE and not node.is_shared:
            raise WorkloadRejected(
                f"rank {rank} asks for {node.device.text(slot.mgpu)}; {node.name} gives whole ones"
            )
        asked_mgpu[node.name] = asked_mgpu.get(node.name, 0) + slot.mgpu
        if asked_mgpu[node.name] > node.devices * MGPU_PER_DEVICE:
            raise WorkloadRejected(
                f"rank {rank}: {node.name} has {node.device.text(node.devices * MGPU_PER_DEVICE)}"
                " in all, fewer than asked of it"
            )
    return tuple(
        Slot(slot.node, slot.mgpu, node.devices, node.first_device)
        for slot in workload.slots
        for node in (nodes[slot.node],)
    )
