"""Checks whether Kueue answers.

While it does not, nothing is admitted, and no error appears: the API server goes on answering, and
workloads only wait.
"""

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

#: With a webhook's time-outs, a missing controller is reported within half a minute.
LOOKED_EVERY_S = 10.0
#: The message of a job that waits for Kueue.
AWAY = "Kueue does not answer, so the job is not admitted there yet."
PATH = f"/apis/{KUEUE_VERSION}/resourceflavors"
#: Never stored: a dry run, which only Kueue's webhook sees.
_PROBE: dict[str, Any] = {
    "apiVersion": KUEUE_VERSION,
    "kind": "ResourceFlavor",
    "metadata": {"generateName": "tidegate-probe-"},
    "spec": {},
}


class KueueWatch:
    """Probes Kueue now and then; for several threads at once."""

    def __init__(self, api: KubeApi, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._looked_s = -float("inf")
        self._complaint = ""
        #: Whether the last probe got no answer from Kueue.
        self.is_away = False

    def complaint(self) -> str:
        """Return why nothing is admitted there, as of at most 10 s ago, or ""."""
        with self._lock:
            if self._monotonic_s() - self._looked_s >= LOOKED_EVERY_S:
                self._complaint = self._look()
                self._looked_s = self._monotonic_s()
            return self._complaint

    def is_away_now(self) -> bool:
        """Probe now. Return whether Kueue does not answer, whatever an earlier probe found."""
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


def with_kueue_away(listing: Listing) -> Listing:
    """Return the listing while Kueue is away: workloads that wait for admission say so."""
    waiting = (WorkloadPhase.HELD, WorkloadPhase.STARTING)
    observations = {
        key: replace(one, message=AWAY) if one.phase in waiting and not one.message else one
        for key, one in listing.observations.items()
    }
    return replace(listing, observations=observations)
