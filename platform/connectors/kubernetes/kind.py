"""Kubernetes clusters, with Kueue or another scheduler of gangs."""

from __future__ import annotations

from connectors.kinds import ClusterKind
from connectors.kubernetes.connector import (
    CLUSTER,
    check_kubernetes_options,
    open_kubernetes,
    open_kubernetes_logs,
)
from connectors.kubernetes.natives.natives import control_natives
from connectors.kubernetes.node_control.evicting import control_eviction
from connectors.kubernetes.node_control.node_control import control_nodes
from connectors.kubernetes.options import trust
from connectors.kubernetes.options.options import (
    default_images,
    job_image_refusal,
    names_images,
    unit_mgpu,
)
from connectors.kubernetes.quotas.entitlements import control_entitlements
from connectors.kubernetes.quotas.wanted_objects import team_subject

KUBERNETES = ClusterKind(
    name="kubernetes",
    label="Kubernetes",
    open=open_kubernetes,
    check_options=check_kubernetes_options,
    check_trusted=trust.check_trusted,
    operator_settings=(trust.KUBECONFIGS,),
    secret_paths=trust.secret_paths,
    shows_options=True,
    unique_identity=CLUSTER,
    submits_held=True,
    submits_in_parts=True,
    gpu_unit=unit_mgpu,
    runs_images=names_images,
    refuse_image=job_image_refusal,
    default_images=default_images,
    open_logs=open_kubernetes_logs,
    control_natives=control_natives,
    control_nodes=control_nodes,
    control_eviction=control_eviction,
    control_entitlements=control_entitlements,
    team_subject=team_subject,
)
