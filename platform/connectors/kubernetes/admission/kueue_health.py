"""Whether Kueue answers. While it does not, nothing is admitted, and nothing there says a word of
it: the API server goes on answering, and workloads only wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from connectors.errors import ClusterUnavailable
from connectors.kubernetes.admission.admission_check import KUEUE_VERSION
from connectors.kubernetes.client.api import KubeApi, KubeRefused
from connectors.protocol import Listing, WorkloadPhase

#: With the time-outs of a webhook a controller that is gone is told within half a minute.
LOOKED_EVERY_S = 10.0
#: What a job says that waits for it.
AWAY = "Kueue does not answer, so the job is not admitted there yet."
PATH = f"/apis/{KUEUE_VERSION}/resourceflavors"
#: Never stored: it is only shown to Kueue's webhook.
_PROBE: dict[str, Any] = {
    "apiVersion": KUEUE_VERSION,
    "kind": "ResourceFlavor",
    "metadata": {"generateName": "tidegate-probe-"},
    "spec": {},
}


class KueueWatch:
    """Asks Kueue now and then; for several threads at once."""

    def __init__(self, api: KubeApi, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._looked_s = -float("inf")
        self._complaint = ""
        #: Whether the last look got no answer of Kueue.
        self.is_away = False

    def complaint(self) -> str:
        """Why nothing is admitted there, as found at most 10 s ago, or ""."""
        with self._lock:
            if self._monotonic_s() - self._looked_s >= LOOKED_EVERY_S:
                self._complaint = self._look()
                self._looked_s = self._monotonic_s()
            return self._complaint

    def is_away_now(self) -> bool:
        """Whether it gets no answer at this moment, whatever it knew before."""
        with self._lock:
            self._complaint = self._look()
            self._looked_s = self._monotonic_s()
            return self.is_away

    def _look(self) -> str:
        self.is_away = False
        try:
            self._api.create(PATH, _PROBE, dry_run=True)
        except KubeRefused as refusal:
            return f"Kueue could not be asked whether it is well: {refusal}."
        except ClusterUnavailable as silence:
            self.is_away = True
            return (
                "Kueue does not answer, so nothing is submitted, admitted or stopped there; what "
                f"runs goes on. Look at its Deployment in its namespace: {silence}."
            )
        return ""


def told_of_kueue(listing: Listing) -> Listing:
    """The listing while Kueue is away: what waits for its admission says so."""
    waiting = (WorkloadPhase.HELD, WorkloadPhase.STARTING)
    observations = {
        key: replace(one, message=AWAY) if one.phase in waiting and not one.message else one
        for key, one in listing.observations.items()
    }
    return replace(listing, observations=observations)
