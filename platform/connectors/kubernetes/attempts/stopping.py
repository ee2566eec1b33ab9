"""Stops attempts for good: the immediate part. `reconciler` makes it last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from connectors.kubernetes.admission.admission_check import (
    is_inactive,
    is_marked,
    is_untouched,
    vote_of,
    workload_path,
)
from connectors.kubernetes.attempts.reconciler import KILL_GRACE_S, is_over, pod_path, stop_patch
from connectors.kubernetes.client.api import NotFound
from connectors.kubernetes.informers.writing import Writer, path_to
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.attempts import Attempt
from connectors.kubernetes.objects.reading import is_true


class Stopper:
    """Stops attempts."""

    def __init__(
        self, writer: Writer, *, has_finished: Callable[[Attempt], bool], has_kueue: bool
    ) -> None:
        """`has_finished` returns whether an attempt has ended by itself, as in a listing."""
        self._writer = writer
        self._has_finished = has_finished
        self._has_kueue = has_kueue

    def stop(self, attempt: Attempt, *, only_as_it_is: bool = False) -> None:
        """Mark it as stopped for good. `reconciler` ends its Pods, now and whenever one appears.

        With `only_as_it_is`, an attempt that has changed meanwhile is left for the next look.
        """
        now = datetime.now(UTC)
        workload = attempt.workload
        if self._has_finished(attempt):
            # No more Pods are created. Pods that are still ending are killed at once.
            for pod in attempt.pods:
                if not is_over(pod):
                    self._writer.delete(pod_path(pod), pod["metadata"]["uid"], grace_s=KILL_GRACE_S)
            return
        if _is_stopped(attempt) and (workload is None or is_inactive(workload)):
            return
        marked, path = attempt.item, path_to(attempt.item)
        patch: dict[str, Any] = stop_patch(now)
        if workload is not None:
            marked, path = workload, workload_path(workload)
            patch["spec"] = {"active": False}
        elif not self._has_kueue:
            patch["spec"] = {"suspend": True}
        if only_as_it_is:
            patch["metadata"]["resourceVersion"] = marked["metadata"]["resourceVersion"]
        try:
            self._writer.patch(path, patch)
        except NotFound:
            if workload is None:
                return
            # Kueue has just replaced it. The new Workload belongs to the same object.
            with contextlib.suppress(NotFound):
                self._writer.patch(path_to(attempt.item), stop_patch(now))


def is_finished(attempt: Attempt) -> bool:
    """Return whether the cluster reports that it has ended by itself."""
    workload = attempt.workload
    ends = ("Complete", "Completed", "Succeeded", "Failed")
    return (workload is not None and is_true(workload, "Finished")) or any(
        is_true(attempt.item, end) for end in ends
    )


def _is_stopped(attempt: Attempt) -> bool:
    """Return whether it was stopped for good."""
    marked = [attempt.item] if attempt.workload is None else [attempt.item, attempt.workload]
    return any(is_marked(one, naming.STOPPED) for one in marked)


def may_still_run(attempt: Attempt) -> bool:
    """Return whether it has neither ended nor been stopped."""
    return not _is_stopped(attempt) and not is_finished(attempt)


def is_held(attempt: Attempt) -> bool:
    """Return whether it never got a vote."""
    if not is_untouched(attempt.item):
        return False
    workload = attempt.workload
    return workload is None or (vote_of(workload) != "Ready" and not is_true(workload, "Admitted"))
