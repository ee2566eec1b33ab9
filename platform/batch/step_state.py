"""The state that the steps of one job share: the count of steps, and the GPUs of running ones.

Both are files in a folder of the job, locked while they are changed. A step that was killed leaves
its claim behind; the next one sees that the process is gone and drops it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from batch.command_line import Refused
from batch.places import Place

_RETRY_S = 0.2
_CLAIMS_MAX = 10_000


class StepState:
    """The shared state in `folder`, which is made if it is missing."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._path = os.path.join(folder, "steps.json")

    def next_number(self) -> int:
        """Return the number of a new step: 0, 1, 2 and so on."""
        with self._locked() as state:
            number = int(state.get("steps", 0))
            state["steps"] = number + 1
        return number

    def claim(self, places: Sequence[Place], needed: Sequence[int]) -> list[list[int]]:
        """Return free devices for a step, on each of its `places`, and hold them for this process.

        Waits while other steps of the job have them, as Slurm does. Raises `Refused` where the step
        can never have them.
        """
        while True:
            with self._locked() as state:
                claims = {
                    pid: held
                    for pid, held in state.get("claims", {}).items()
                    if os.path.exists(f"/proc/{pid}")
                }
                found = _choose(places, needed, claims)
                if found is not None:
                    names = [place.node for place in places]
                    claims[str(os.getpid())] = dict(zip(names, found, strict=True))
                state["claims"] = claims
                if len(claims) > _CLAIMS_MAX:
                    raise Refused(f"more than {_CLAIMS_MAX} steps run at once.")
            if found is not None:
                return found
            time.sleep(_RETRY_S)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = file.read()
            state = json.loads(text) if text else {}
            yield state
            file.seek(0)
            file.truncate()
            json.dump(state, file)


def _choose(
    places: Sequence[Place], needed: Sequence[int], claims: dict[str, dict[str, list[int]]]
) -> list[list[int]] | None:
    """Return the first free devices on each place; None while a place has too few."""
    found = []
    for place, count in zip(places, needed, strict=True):
        taken = {device for held in claims.values() for device in held.get(place.node, ())}
        free = [device for device in place.devices if device not in taken]
        if len(free) < count:
            return None
        found.append(free[:count])
    return found
