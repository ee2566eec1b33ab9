"""The specification of an attempt, written by the connector and read by the supervisor."""

from __future__ import annotations

from collections.abc import Mapping

from batch.variables import BatchJob
from connectors.local.attempt_files import (
    FORMAT,
    CorruptRecord,
    integer,
    integer_or_none,
    mapping,
    read_json,
    text,
    text_or_none,
)
from connectors.local.limits import Limits, read_limits
from connectors.local.sandbox import Sandbox, read_sandbox
from connectors.protocol import JobFiles


class Slot:
    """The place of one rank: `mgpu` milli-GPU on `node`.

    The node has `node_gpus` devices, with indices from `first_device` on.
    """

    def __init__(self, node: str, mgpu: int, node_gpus: int, first_device: int = 0) -> None:
        self.node = node
        self.mgpu = mgpu
        self.node_gpus = node_gpus
        self.first_device = first_device


class Credentials:
    """The UNIX identity of the ranks."""

    def __init__(self, uid: int, gid: int, groups: tuple[int, ...]) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = groups


class AttemptSpec:
    """One attempt. `trace` is unique to it and is in every rank's environment.

    An attempt that `is_of_cores` has CPU cores and no GPUs. Without a `sandbox`, ranks see the
    machine as it is. The script of a `batch` job has one rank, on the node of the first slot.
    `arguments` follow the script on its command line. `files` says where it starts, and where its
    output goes beside the logs.
    """

    def __init__(
        self,
        *,
        key: str,
        trace: str,
        boot_id: str,
        slots: tuple[Slot, ...],
        uses_real_gpus: bool,
        environment: Mapping[str, str],
        time_limit_s: int | None,
        notice_signal: int,
        grace_s: int,
        signal_ahead_s: int | None = None,
        signals_shell_only: bool = False,
        log_cap_bytes: int,
        credentials: Credentials | None,
        is_of_cores: bool = False,
        sandbox: Sandbox | None = None,
        limits: Limits | None = None,
        batch: BatchJob | None = None,
        arguments: tuple[str, ...] = (),
        files: JobFiles | None = None,
    ) -> None:
        self.key = key
        self.trace = trace
        self.boot_id = boot_id
        self.slots = slots
        self.uses_real_gpus = uses_real_gpus
        self.environment = dict(environment)
        self.time_limit_s = time_limit_s
        self.notice_signal = notice_signal
        self.grace_s = grace_s
        self.signal_ahead_s = signal_ahead_s
        self.signals_shell_only = signals_shell_only
        self.log_cap_bytes = log_cap_bytes
        self.credentials = credentials
        self.is_of_cores = is_of_cores
        self.sandbox = sandbox
        self.limits = limits
        self.batch = batch
        self.arguments = arguments
        self.files = files or JobFiles()

    @property
    def ranks(self) -> int:
        """Return how many ranks the attempt has."""
        return len(self.slots) if self.batch is None else 1

    def to_json(self) -> dict[str, object]:
        """Return the record that `read_spec` reads."""
        credentials = self.credentials
        return {
            "format": FORMAT,
            "key": self.key,
            "trace": self.trace,
            "boot_id": self.boot_id,
            "slots": [
                {
                    "node": slot.node,
                    "mgpu": slot.mgpu,
                    "node_gpus": slot.node_gpus,
                    "first_device": slot.first_device,
                }
                for slot in self.slots
            ],
            "uses_real_gpus": self.uses_real_gpus,
            "environment": self.environment,
            "time_limit_s": self.time_limit_s,
            "notice_signal": self.notice_signal,
            "grace_s": self.grace_s,
            "signal_ahead_s": self.signal_ahead_s,
            "signals_shell_only": self.signals_shell_only,
            "log_cap_bytes": self.log_cap_bytes,
            "is_of_cores": self.is_of_cores,
            "sandbox": self.sandbox and self.sandbox.to_json(),
            "limits": self.limits and self.limits.to_json(),
            "batch": self.batch and vars(self.batch),
            "arguments": list(self.arguments),
            "files": {
                "folder": self.files.folder,
                "output": self.files.output,
                "error": self.files.error,
                "appends": self.files.appends,
                "values": dict(self.files.values),
            },
            "credentials": credentials
            and {
                "uid": credentials.uid,
                "gid": credentials.gid,
                "groups": list(credentials.groups),
            },
        }


def read_spec(path: str) -> AttemptSpec:
    """Return the spec at `path`. Raises OSError or CorruptRecord."""
    record = read_json(path)
    if record.get("format") != FORMAT:
        raise CorruptRecord(f"spec.json has format {record.get('format')!r}, not {FORMAT}")
    return AttemptSpec(
        key=text(record, "key"),
        trace=text(record, "trace"),
        boot_id=text(record, "boot_id"),
        slots=tuple(_slot(slot) for slot in _list(record, "slots")),
        uses_real_gpus=record.get("uses_real_gpus") is True,
        environment={
            key: text(mapping(record, "environment"), key) for key in mapping(record, "environment")
        },
        time_limit_s=integer_or_none(record, "time_limit_s"),
        notice_signal=integer(record, "notice_signal"),
        grace_s=integer(record, "grace_s"),
        log_cap_bytes=integer(record, "log_cap_bytes"),
        is_of_cores=record.get("is_of_cores") is True,
        # Specs of earlier versions have none of these.
        signal_ahead_s=integer_or_none(record, "signal_ahead_s"),
        signals_shell_only=record.get("signals_shell_only") is True,
        sandbox=read_sandbox(mapping(record, "sandbox")) if record.get("sandbox") else None,
        limits=read_limits(mapping(record, "limits")) if record.get("limits") else None,
        batch=_batch(mapping(record, "batch")) if record.get("batch") else None,
        arguments=_arguments(record) if record.get("arguments") else (),
        files=_files(mapping(record, "files")) if record.get("files") else None,
        credentials=None if record.get("credentials") is None else _credentials(record),
    )


def _list(record: Mapping[str, object], name: str) -> list[object]:
    value = record.get(name)
    if not isinstance(value, list):
        raise CorruptRecord(f"{name} is {value!r}, not a list")
    return value


def _slot(value: object) -> Slot:
    if not isinstance(value, dict):
        raise CorruptRecord(f"slot {value!r} is not an object")
    # Specs from before GPUs could be shared lack it.
    first_device = integer(value, "first_device") if "first_device" in value else 0
    return Slot(
        text(value, "node"), integer(value, "mgpu"), integer(value, "node_gpus"), first_device
    )


def _batch(record: Mapping[str, object]) -> BatchJob:
    return BatchJob(
        number=integer(record, "number"),
        name=text(record, "name"),
        user=text(record, "user"),
        account=text(record, "account"),
        partition=text(record, "partition"),
        folder=text(record, "folder"),
        qos=text_or_none(record, "qos") or "",
        restarts=integer(record, "restarts"),
        array_number=integer_or_none(record, "array_number"),
        tasks=integer_or_none(record, "tasks"),
        tasks_per_node=integer_or_none(record, "tasks_per_node"),
        cpus_per_task=integer_or_none(record, "cpus_per_task"),
        gpus_per_task=integer_or_none(record, "gpus_per_task"),
        cpus_per_node=integer_or_none(record, "cpus_per_node"),
        memory_mib_per_node=integer_or_none(record, "memory_mib_per_node"),
    )


def _files(record: Mapping[str, object]) -> JobFiles:
    values = mapping(record, "values")
    return JobFiles(
        folder=text_or_none(record, "folder"),
        output=text_or_none(record, "output"),
        error=text_or_none(record, "error"),
        appends=record.get("appends") is True,
        values={letter: text(values, letter) for letter in values},
    )


def _arguments(record: Mapping[str, object]) -> tuple[str, ...]:
    found = _list(record, "arguments")
    return tuple(argument for argument in found if isinstance(argument, str))


def _credentials(record: Mapping[str, object]) -> Credentials:
    value = mapping(record, "credentials")
    groups = tuple(group for group in _list(value, "groups") if type(group) is int)
    return Credentials(integer(value, "uid"), integer(value, "gid"), groups)
