"""The devices and the port of every attempt, allocated by the supervisors themselves.

Every running attempt has a file `allocations/KEY.json` under the connector's root. A file counts
until its attempt has ended. So nothing is allocated twice, even if a supervisor is killed before it
could release. One lock protects all changes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterable, Mapping

from connectors.local.attempt_files import CorruptRecord, integer, read_json, try_lock, write_json
from connectors.local.attempt_spec import AttemptSpec, Slot

MGPU_PER_DEVICE = 1_000
#: Below the range that Linux takes client ports from by default, so that a port found free here
#: is not taken by chance before rank 0 listens on it.
PORT_MIN, PORT_MAX = 20_000, 32_000

_LOCK_TRIES = 100
_LOCK_RETRY_MS = 5


class Allocation:
    """An allocation. `devices` are the indices that each rank may use, in rank order."""

    def __init__(self, port: int, devices: tuple[tuple[int, ...], ...]) -> None:
        self.port = port
        self.devices = devices


def try_allocate(root: str, spec: AttemptSpec) -> Allocation | None:
    """Return devices and a port for `spec`, new or existing; None when it must wait.

    Either all of its ranks get their devices or none does.
    """
    for _ in range(_LOCK_TRIES):
        lock = try_lock(f"{root}/allocations.lock")
        if lock is not None:
            break
        time.sleep(_LOCK_RETRY_MS / 1_000)
    else:
        return None
    try:
        return _allocate(root, spec)
    finally:
        os.close(lock)


def release(root: str, key: str) -> None:
    """Release the allocation of `key`. Idempotent."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{root}/allocations/{key}.json")


def allocated_devices(root: str, key: str) -> tuple[tuple[int, ...], ...]:
    """Return the devices of each rank of `key`; () when it has none. Raises OSError."""
    with contextlib.suppress(FileNotFoundError, CorruptRecord):
        return _from_record(read_json(f"{root}/allocations/{key}.json")).devices
    return ()


def _allocate(root: str, spec: AttemptSpec) -> Allocation | None:
    used_mgpu: dict[tuple[str, int], int] = {}
    used_ports = set()
    for key, record in _live_records(root):
        if key == spec.key:
            return _from_record(record)
        used_ports.add(integer(record, "port"))
        for slot, held in zip(_slots(record), _from_record(record).devices, strict=True):
            _use(used_mgpu, slot, held)
    chosen = []
    for slot in spec.slots:
        devices = choose_devices(slot, used_mgpu)
        if devices is None:
            return None
        _use(used_mgpu, slot, devices)
        chosen.append(devices)
    port = _free_port(int(spec.trace[:8], 16), used_ports)
    write_json(
        f"{root}/allocations/{spec.key}.json",
        {
            "port": port,
            "slots": [[slot.node, slot.mgpu] for slot in spec.slots],
            "devices": chosen,
        },
    )
    return Allocation(port, tuple(chosen))


def choose_devices(slot: Slot, used_mgpu: Mapping[tuple[str, int], int]) -> tuple[int, ...] | None:
    """Return device indices for `slot`; None when they are not free.

    `used_mgpu` is the milli-GPU in use by (node, index). Whole GPUs get unused devices, lowest
    index first. A share gets the fullest device that can still take it, so that whole devices stay
    whole.
    """
    free_mgpu = {
        index: MGPU_PER_DEVICE - used_mgpu.get((slot.node, index), 0)
        for index in range(slot.first_device, slot.first_device + slot.node_gpus)
    }
    if slot.mgpu >= MGPU_PER_DEVICE:
        whole = [index for index, free in free_mgpu.items() if free == MGPU_PER_DEVICE]
        count = slot.mgpu // MGPU_PER_DEVICE
        return tuple(whole[:count]) if len(whole) >= count else None
    if slot.mgpu == 0:
        return ()
    roomy = [(free, index) for index, free in free_mgpu.items() if free >= slot.mgpu]
    return (min(roomy)[1],) if roomy else None


def _use(used_mgpu: dict[tuple[str, int], int], slot: Slot, devices: tuple[int, ...]) -> None:
    for index in devices:
        share = min(slot.mgpu, MGPU_PER_DEVICE)
        used_mgpu[slot.node, index] = used_mgpu.get((slot.node, index), 0) + share


def _live_records(root: str) -> Iterable[tuple[str, dict[str, object]]]:
    for name in os.listdir(f"{root}/allocations"):
        key, dot, extension = name.partition(".")
        if extension != "json" or not dot:
            continue
        attempt = f"{root}/attempts/{key}"
        if os.path.exists(f"{attempt}/end.json") or not os.path.isdir(attempt):
            release(root, key)
            continue
        with contextlib.suppress(FileNotFoundError):
            yield key, read_json(f"{root}/allocations/{name}")


def _from_record(record: Mapping[str, object]) -> Allocation:
    devices = record.get("devices")
    if not isinstance(devices, list):
        raise CorruptRecord("an allocation has no devices")
    return Allocation(integer(record, "port"), tuple(tuple(indices) for indices in devices))


def _slots(record: Mapping[str, object]) -> list[Slot]:
    slots = record.get("slots")
    if not isinstance(slots, list):
        raise CorruptRecord("an allocation has no slots")
    return [Slot(node, mgpu, 0) for node, mgpu in slots]


def _free_port(seed: int, used: set[int]) -> int:
    """Return a port of this machine that no attempt has and no process listens on.

    Raises OSError when all are in use.
    """
    count = PORT_MAX - PORT_MIN
    for offset in range(count):
        port = PORT_MIN + (seed + offset) % count
        if port in used:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"no port between {PORT_MIN} and {PORT_MAX} is free")
