"""The kinds of cluster that Tidegate can talk to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connectors.accounts import ClusterAccount
from connectors.entitlements import EntitlementControl
from connectors.kubernetes.connector import CLUSTER as KUBERNETES_UID
from connectors.kubernetes.connector import (
    check_kubernetes_options,
    open_kubernetes,
    open_kubernetes_logs,
)
from connectors.kubernetes.entitlements import (
    control_entitlements as control_kubernetes_entitlements,
)
from connectors.kubernetes.evicting import control_eviction as control_kubernetes_eviction
from connectors.kubernetes.natives import control_natives as control_kubernetes_natives
from connectors.kubernetes.node_control import control_nodes as control_kubernetes_nodes
from connectors.kubernetes.options import default_images as kubernetes_default_images
from connectors.kubernetes.options import job_image_refusal as kubernetes_image_refusal
from connectors.kubernetes.options import names_images
from connectors.kubernetes.options import unit_mgpu as kubernetes_unit_mgpu
from connectors.kubernetes.wanted_objects import team_subject as kubernetes_team_subject
from connectors.local.connector import open_local
from connectors.local.node_control import control_nodes as control_local_nodes
from connectors.local.options import unit_mgpu as local_unit_mgpu
from connectors.natives import NativeControl
from connectors.node_control import NodeControl, NodeEviction
from connectors.protocol import ClusterConnector, LogReader
from connectors.slurm.accounts import open_account
from connectors.slurm.connector import check_slurm_options, open_slurm, open_slurm_logs
from connectors.slurm.entitlements import control_entitlements
from connectors.slurm.natives import control_natives
from connectors.slurm.node_control import cannot_change_nodes
from connectors.slurm.node_control import control_nodes as control_slurm_nodes
from connectors.slurm.options import runs_images as runs_slurm_images
from primitives.units import MGPU_PER_GPU

Opener = Callable[[Mapping[str, Any], str, Mapping[str, str]], ClusterConnector]
OPENERS: Mapping[str, Opener] = {
    "kubernetes": open_kubernetes,
    "local": open_local,
    "slurm": open_slurm,
}

#: Options that decide which cluster it is, and which workloads on it are ours.
LASTING_OPTIONS: Mapping[str, frozenset[str]] = {
    "slurm": frozenset({"url", "tag_secret", "tag_secret_file", "cluster_name"}),
}
#: The option by which two clusters of a kind are one and the same.
ADDRESS_OPTIONS: Mapping[str, str] = {"slurm": "url"}
#: The option that names the user as whom the portal itself acts there: nobody's jobs run as that.
SERVICE_USER_OPTIONS: Mapping[str, str] = {"slurm": "service_user"}
#: What of their identity (`Inventory.identity`) no two clusters in the world have in common.
UNIQUE_IDENTITIES: Mapping[str, str] = {"kubernetes": KUBERNETES_UID}
#: Kinds of cluster whose jobs run as users of the cluster, who must be mapped first.
KINDS_WITH_USERS = frozenset({"slurm"})
#: Kinds of cluster whose connectors hold submissions (`ClusterConnector.submits_held`).
KINDS_THAT_HOLD = frozenset({"kubernetes", "slurm"})
#: Kinds of cluster where a submission makes several things, the workload itself first: that it is
#: listed does not say that all are there.
KINDS_IN_PARTS = frozenset({"kubernetes"})
#: The milli-GPU that a pool gives out at once, by options and the pool's name, on the kinds of
#: cluster that cannot give out any number of them.
GPU_UNITS: Mapping[str, Callable[[Mapping[str, Any], str], int]] = {
    "kubernetes": kubernetes_unit_mgpu,
    "local": local_unit_mgpu,
    "slurm": lambda options, pool: MGPU_PER_GPU,
}
#: Whether container images are run, by the options, on the kinds of cluster that can do so.
IMAGE_RUNNERS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "kubernetes": names_images,
    "slurm": runs_slurm_images,
}
#: Why a job does not run for the image that it names, or for lack of one ("": it does), by options,
#: the pool's name and the image, on the kinds of cluster that have a say in it.
IMAGE_REFUSALS: Mapping[str, Callable[[Mapping[str, Any], str, str | None], str]] = {
    "kubernetes": kubernetes_image_refusal,
}
#: The image of jobs that name none, by pool, on the kinds of cluster where every job runs in one.
DEFAULT_IMAGES: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, str | None]]] = {
    "kubernetes": kubernetes_default_images,
}
#: Kinds of cluster whose options hold no secret, so that administrators may read them again.
KINDS_WITH_OPEN_OPTIONS = frozenset({"kubernetes", "local"})
#: How natives are controlled, on the kinds of cluster that may have any.
NATIVE_CONTROLS: Mapping[str, Callable[[ClusterConnector], NativeControl]] = {
    "kubernetes": control_kubernetes_natives,
    "slurm": control_natives,
}
#: How nodes are drained and resumed, on the kinds of cluster where that can be done.
NODE_CONTROLS: Mapping[str, Callable[[ClusterConnector], NodeControl]] = {
    "kubernetes": control_kubernetes_nodes,
    "local": control_local_nodes,
    "slurm": control_slurm_nodes,
}
#: How drained nodes are emptied, on the kinds of cluster where that can be done.
NODE_EVICTIONS: Mapping[str, Callable[[ClusterConnector], NodeEviction]] = {
    "kubernetes": control_kubernetes_eviction,
}
#: How limits are written, on the kinds of cluster that keep any themselves.
ENTITLEMENT_CONTROLS: Mapping[str, Callable[[ClusterConnector], EntitlementControl]] = {
    "kubernetes": control_kubernetes_entitlements,
    "slurm": control_entitlements,
}
#: What a comparison of limits calls that without which the team at a path can submit nothing, on
#: the kinds of cluster where a push makes it.
TEAM_SUBJECTS: Mapping[str, Callable[[str], str]] = {
    "kubernetes": kubernetes_team_subject,
}
#: The cluster's own account of what ran, on the kinds of cluster that keep one.
ACCOUNTS: Mapping[str, Callable[[ClusterConnector], ClusterAccount]] = {
    "slurm": open_account,
}


#: How options are checked where the connector would need what the asking process must not have.
OPTION_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "kubernetes": check_kubernetes_options,
    "slurm": check_slurm_options,
}
#: How outputs are read, on the kinds of cluster where that needs less than the connector.
LOG_READERS: Mapping[str, Callable[[Mapping[str, Any]], LogReader]] = {
    "kubernetes": open_kubernetes_logs,
    "slurm": open_slurm_logs,
}


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Raises KeyError for a kind that is not registered, ValueError for options that such a cluster
    cannot have, and what else its opener raises."""
    if kind in OPTION_CHECKS:
        OPTION_CHECKS[kind](options)
    else:
        open_connector(kind, options, "new")


def open_connector(
    kind: str,
    options: Mapping[str, Any],
    cluster_id: str,
    known_as: Mapping[str, str] | None = None,
) -> ClusterConnector:
    """The connector of a cluster of `kind` with its stored `options`.

    `cluster_id` is ours and unique for ever: how a cluster knows whose it is. `known_as` is the
    identity that its first inventory told (see `protocol.Inventory`): how we know whether it is
    still the same. Raises KeyError for a kind that is not registered, and what its opener raises.
    """
    return OPENERS[kind](options, cluster_id, known_as or {})


def runs_images(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether a cluster of `kind` with these stored `options` runs jobs in container images."""
    runner = IMAGE_RUNNERS.get(kind)
    return runner is not None and runner(options)


def image_refusal(kind: str, options: Mapping[str, Any], pool: str, image: str | None) -> str:
    """Why a cluster of `kind` with these stored `options` cannot run a job of the pool named `pool`
    that names `image`, or none, for that alone, and what to do; "" when it can."""
    if kind in IMAGE_REFUSALS:
        return IMAGE_REFUSALS[kind](options, pool, image)
    if image is None or runs_images(kind, options):
        return ""
    return "it does not run container images"


def gpu_unit_mgpu(kind: str, options: Mapping[str, Any], pool: str) -> int:
    """What ranks of jobs of the pool named `pool` must be a multiple of there, in milli-GPU."""
    return GPU_UNITS[kind](options, pool) if kind in GPU_UNITS else 1


def default_images(kind: str, options: Mapping[str, Any]) -> Mapping[str, str | None]:
    """By pool, the image of jobs that name none on a cluster of `kind` where every job runs in an
    image; None where they must name one. Empty for other clusters."""
    told = DEFAULT_IMAGES.get(kind)
    return {} if told is None else told(options)


def native_control(kind: str, connector: ClusterConnector) -> NativeControl | None:
    """The control of the natives on the cluster of `connector`, None where there are none."""
    control = NATIVE_CONTROLS.get(kind)
    return None if control is None else control(connector)


def nodes_refusal(kind: str, api_version: str) -> str:
    """Why the nodes of such a cluster cannot be drained and resumed; "" when they can."""
    if kind not in NODE_CONTROLS:
        return f"nodes of clusters of kind {kind} cannot be drained from here"
    return cannot_change_nodes(api_version) if kind == "slurm" else ""


def eviction_refusal(kind: str) -> str:
    """Why what runs on a node of such a cluster cannot be evicted with a drain; "" when it can."""
    if kind in NODE_EVICTIONS:
        return ""
    return f"on clusters of kind {kind} what runs on a drained node goes on to its end"
