"""Makes the time limit of an attempt longer: its launchers are told, and its backstop moves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from connectors.errors import NotOffered
from connectors.kubernetes.admission.admission_check import workload_path
from connectors.kubernetes.attempts.reconciler import limit_patch, mark_of
from connectors.kubernetes.client.api import NotFound
from connectors.kubernetes.informers.writing import Writer, path_to
from connectors.kubernetes.manifests.pod_template import BACKSTOP_S
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.attempts import Attempt
from connectors.kubernetes.objects.reading import Object
from connectors.kubernetes.objects.resources import JOB

_DEADLINE = "activeDeadlineSeconds"


def extend(attempt: Attempt, limit_s: int, *, writer: Writer, has_kueue: bool) -> None:
    """Let `attempt` run for `limit_s` seconds from its start.

    The backstop moves first, so that Kubernetes ends nothing that its launchers let run. The
    reconciler passes the limit on to Pods.

    Raises NotOffered for a manifest: Kueue never changes the longest run of what it has admitted.
    """
    if naming.manifest_pods(attempt.item) is not None:
        raise NotOffered("Kueue cannot make the time limit of a manifest that runs longer")
    marked, path = attempt.item, path_to(attempt.item)
    if has_kueue and attempt.workload is not None:
        marked, path = attempt.workload, workload_path(attempt.workload)
    with contextlib.suppress(NotFound):
        for place, patch in _backstops(attempt.item, limit_s + BACKSTOP_S):
            writer.patch(place, patch)
        if mark_of(marked, naming.LIMIT) != str(limit_s):
            writer.patch(path, limit_patch(str(limit_s)))


def _backstops(item: Object, deadline_s: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and patch of every object that would end the attempt before `deadline_s`."""
    spec, namespace = item["spec"], item["metadata"]["namespace"]
    for group in spec.get("replicatedJobs") or ():
        if _is_earlier(group["template"]["spec"], deadline_s):
            # The JobSet's own template never changes; its Jobs do.
            for copy in range(group.get("replicas", 1)):
                name = f"{item['metadata']['name']}-{group['name']}-{copy}"
                yield JOB.path(namespace, name), {"spec": {_DEADLINE: deadline_s}}
    if _is_earlier(spec, deadline_s):
        yield path_to(item), {"spec": {_DEADLINE: deadline_s}}
    if _is_earlier(spec.get("runPolicy") or {}, deadline_s):
        yield path_to(item), {"spec": {"runPolicy": {_DEADLINE: deadline_s}}}


def _is_earlier(spec: Object, deadline_s: int) -> bool:
    known_s = spec.get(_DEADLINE)
    return known_s is not None and known_s < deadline_s
