"""The names of our objects on a Kubernetes cluster.

No name, label or annotation key contains user text: names are our own keys or hashes of paths. Text
for people is in annotation values.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

#: The field manager for server-side apply.
FIELD_MANAGER = "tidegate"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_US = "tidegate"

#: Annotation: the key of the attempt that the object runs.
KEY = "tidegate.io/key"
#: Annotation, written at creation by our admission policies: who made a native workload.
CREATOR = "tidegate.io/creator"
#: Annotation of an object: what its Pods were to ask for when it was submitted, see `asking`.
ASKED = "tidegate.io/asked"
#: Annotation: the path of the team, as people read it.
PATH = "tidegate.io/path"
#: Annotation of Pods: `NOTICE_GIVEN` once the workload has been notified that it will be stopped.
NOTICE = "tidegate.io/notice"
NOTICE_GIVEN = "given"
#: Annotation of Pods, and of what has them: the time limit in seconds, once it was made longer.
LIMIT = "tidegate.io/time-limit"
#: Annotation of a Workload, or of an object without one: when we stopped it for good.
STOPPED = "tidegate.io/stopped"
#: Annotation of Pods: the rank of the Pod whose index is 0, where that is not 0.
FIRST_RANK = "tidegate.io/first-rank"
#: Annotation of Pods: how many ranks each copy of a JobSet's Job has, where it has several. Also
#: how many hosts each replica of a group of Ray's workers has.
RANKS_OF_COPY = "tidegate.io/ranks-of-copy"
#: Annotation of the object of a manifest: how many of its Pods hold GPUs at once.
MANIFEST = "tidegate.io/manifest"
#: Label: "true" on all that belongs to an attempt.
ATTEMPT = "tidegate.io/attempt"
#: Label: the installation's cluster, see `cluster_label`.
CLUSTER = "tidegate.io/cluster"
#: Label: the team, see `team_namespace`.
TEAM = "tidegate.io/team"
#: Label of Pods of a manifest with Services: the name of the attempt's object.
OF_ATTEMPT = "tidegate.io/of-attempt"
#: Label of Pods: `ROLE_RANK` for a Pod that is a rank with an index, and `ROLE_MEMBER` for one that
#: only provides its GPUs to rank 0.
ROLE = "tidegate.io/role"
ROLE_RANK = "rank"
ROLE_MEMBER = "member"

ADMISSION_CHECK = "tidegate"
CONTROLLER = "tidegate.io/arbiter"
LOCAL_QUEUE = "main"
GUARANTEED_CLASS = "tidegate-guaranteed"
BORROWED_CLASS = "tidegate-borrowed"

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
#: The scheduling gate that Kueue gives to Pods that wait in a queue themselves.
ADMISSION_GATE = "kueue.x-k8s.io/admission"

#: The container of every rank, the only one that we put into its Pod.
CONTAINER = "main"
#: The names that the operators of some kinds require instead.
PYTORCH_CONTAINER = "pytorch"
TRAINER_CONTAINER = "node"
CONTAINERS = frozenset({CONTAINER, PYTORCH_CONTAINER, TRAINER_CONTAINER})

#: With the suffixes of all kinds, names of Pods stay within 63 characters.
_NAME_MAX = 40
_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
PREFIX = "tg-"
TOKEN_ENDING = "-token"  # noqa: S105 - part of a name
_KEY_DIGITS = 36
_NAMESPACE_DIGITS = 16
_LABEL_DIGITS = 40

#: MASTER_PORT is one of these, by key.
_PORT_FIRST = 20_000
_PORTS = 10_000

_NAMESPACE = re.compile(rf"{PREFIX}[0-9a-f]{{{_NAMESPACE_DIGITS}}}", re.ASCII)

_INDEX = re.compile(r"[0-9]{1,6}", re.ASCII)
#: Annotations or labels with a Pod's index, by kind of workload; the first present one counts.
INDEX_OF_JOB = "batch.kubernetes.io/job-completion-index"
INDEX_OF_REPLICA = "training.kubeflow.org/replica-index"
#: Label of Pods: which copy of a JobSet's Job they belong to.
INDEX_OF_COPY = "jobset.sigs.k8s.io/job-index"
#: Labels of a worker of Ray: its replica in the group, and its host in a replica of several.
INDEX_OF_WORKER = "ray.io/worker-group-replica-index"
INDEX_OF_HOST = "ray.io/replica-host-index"
_INDEXES = (INDEX_OF_JOB, INDEX_OF_REPLICA, INDEX_OF_HOST)
_COPIES = (INDEX_OF_COPY, INDEX_OF_WORKER)


def workload_name(key: str) -> str:
    """Return the name of the object of the attempt of `key`, and of its dependents.

    It is the key itself if that is a valid name for every kind, otherwise a hash.
    """
    if len(key) <= _NAME_MAX and _NAME.fullmatch(key):
        return key
    return PREFIX + _digits(key, _KEY_DIGITS)


def token_name(key: str) -> str:
    """Return the name of the Secret of the attempt of `key`.

    It is that of its Job with `TOKEN_ENDING`, by which an admission policy knows it.
    """
    return workload_name(key) + TOKEN_ENDING


def is_own_name(name: object) -> bool:
    """Return whether only the portal gives objects this name."""
    return isinstance(name, str) and name.startswith(PREFIX)


def team_namespace(path: str) -> str:
    """Return the namespace of the team at `path`, which is also the name of its queue."""
    return PREFIX + _digits(path, _NAMESPACE_DIGITS)


def is_team_namespace(name: str) -> bool:
    """Return whether it is the namespace of some team."""
    return _NAMESPACE.fullmatch(name) is not None


def cluster_label(cluster_id: str) -> str:
    """Return the value of label `CLUSTER` on our objects on the cluster of `cluster_id`."""
    return _digits(cluster_id, _LABEL_DIGITS)


def labels(cluster_id: str, team: str) -> dict[str, str]:
    """Return the labels of all objects of an attempt of the team at path `team`."""
    return {
        MANAGED_BY: MANAGED_BY_US,
        ATTEMPT: "true",
        CLUSTER: cluster_label(cluster_id),
        TEAM: team_namespace(team),
    }


def selector(cluster_id: str) -> str:
    """Return the label selector of all attempts on the cluster of `cluster_id`."""
    return f"{ATTEMPT}=true,{CLUSTER}={cluster_label(cluster_id)}"


def key_of(item: Mapping[str, Any], cluster_id: str) -> str | None:
    """Return the key of the attempt of the object `item`; None for an object that is not ours."""
    metadata = item.get("metadata") or {}
    if (metadata.get("labels") or {}).get(CLUSTER) != cluster_label(cluster_id):
        return None
    key = (metadata.get("annotations") or {}).get(KEY)
    return key if isinstance(key, str) and key else None


def rank_of(pod: Mapping[str, Any]) -> int | None:
    """Return the rank of the Pod `pod` in its workload; None if it is no rank or unknown."""
    metadata = pod.get("metadata") or {}
    pod_labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    if pod_labels.get(ROLE) != ROLE_RANK:
        return None
    first = str(annotations.get(FIRST_RANK, "0"))
    index = "0"
    for name in _INDEXES:
        if name in annotations or name in pod_labels:
            index = str(annotations.get(name, pod_labels.get(name)))
            break
    copy, of_copy = "0", "0"
    if RANKS_OF_COPY in annotations:
        copy = str(next((pod_labels[name] for name in _COPIES if name in pod_labels), None))
        of_copy = str(annotations[RANKS_OF_COPY])
    if not all(_INDEX.fullmatch(one) for one in (first, index, copy, of_copy)):
        return None
    return int(first) + int(index) + int(copy) * int(of_copy)


def manifest_pods(item: Mapping[str, Any]) -> int | None:
    """Return how many Pods of the object of a manifest hold GPUs at once.

    None for an object that the portal made of a script.
    """
    count = ((item.get("metadata") or {}).get("annotations") or {}).get(MANIFEST)
    return int(count) if isinstance(count, str) and _INDEX.fullmatch(count) else None


def master_port(key: str) -> int:
    """Return the port that rank 0 of the attempt of `key` listens on: 20000 to 29999."""
    return _PORT_FIRST + int(_digits(key, 8), 16) % _PORTS


def _digits(text: str, count: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:count]
