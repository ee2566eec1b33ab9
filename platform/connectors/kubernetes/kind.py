"""Kubernetes clusters, with Kueue or another scheduler of gangs."""

from __future__ import annotations

from connectors.kinds import ClusterKind, KindWords, Options
from connectors.kubernetes.accounts import ACCOUNT_DAYS, open_account
from connectors.kubernetes.attempts.manifest_trials import try_manifest
from connectors.kubernetes.connector import (
    CLUSTER,
    check_kubernetes_options,
    open_kubernetes,
    open_kubernetes_logs,
)
from connectors.kubernetes.manifests.manifest_places import place_manifest, runs_manifests
from connectors.kubernetes.metrics import open_metrics
from connectors.kubernetes.natives.natives import control_natives
from connectors.kubernetes.node_control.evicting import control_eviction
from connectors.kubernetes.node_control.node_control import control_nodes
from connectors.kubernetes.options import trust
from connectors.kubernetes.options.options import (
    KUEUE,
    SCHEDULER_TITLES,
    SHARED_MODE,
    KubernetesOptions,
    default_images,
    holds_natives,
    job_image_refusal,
    names_images,
    portal_url,
    takes_private_environment,
    unit_mgpu,
)
from connectors.kubernetes.quotas.entitlements import control_entitlements
from connectors.kubernetes.quotas.objects import KINDS
from connectors.kubernetes.quotas.wanted_objects import team_subject
from connectors.options import schema_of

_SHARED_LIMITS = (
    "Kueue enforces the quotas too, as cohorts and queues of its own, also while this portal is "
    "away."
)
_NO_LIMITS = "Each team has a namespace there. The cluster itself enforces no quotas."
_WIDE_LIMITS = (
    "Each team has a namespace and a queue there. Kueue's own quotas are wide on purpose: it holds "
    "nothing back that the portal started."
)


def words(options: Options) -> KindWords:
    """Return the words of a cluster with these options, which may be invalid."""
    scheduler = str(options.get("scheduler", KUEUE))
    variant, limits = SCHEDULER_TITLES.get(scheduler, scheduler), _NO_LIMITS
    if scheduler == KUEUE:
        is_shared = options.get("mode") == SHARED_MODE
        limits = _SHARED_LIMITS if is_shared else _WIDE_LIMITS
        variant += ", shared mode" if is_shared else ", arbiter mode"
    return KindWords(
        variant=variant,
        account="Namespace",
        unknown_account="the Pods came through no team's queue",
        unknown_user="no user of this name is known",
        limits=limits,
        limit_objects="namespaces, queues and cohorts",
        subjects={subject: each.kind for subject, each in KINDS.items()},
    )


KUBERNETES = ClusterKind(
    name="kubernetes",
    label="Kubernetes",
    open=open_kubernetes,
    options_schema=schema_of(KubernetesOptions),
    check_options=check_kubernetes_options,
    check_trusted=trust.check_trusted,
    operator_settings=(trust.KUBECONFIGS,),
    secret_paths=trust.secret_paths,
    words=words,
    shows_options=True,
    unique_identity=CLUSTER,
    # The kubelet brings the files of the downward API up to date once a minute, and caches.
    extension_delay_s=120,
    submits_held=True,
    submits_in_parts=True,
    gpu_unit=unit_mgpu,
    batch_nodes_max=1,
    portal_url=portal_url,
    takes_private_environment=takes_private_environment,
    runs_manifests=runs_manifests,
    place_manifest=place_manifest,
    try_manifest=try_manifest,
    runs_images=names_images,
    refuse_image=job_image_refusal,
    default_images=default_images,
    open_logs=open_kubernetes_logs,
    open_account=open_account,
    account_days=ACCOUNT_DAYS,
    open_metrics=open_metrics,
    control_natives=control_natives,
    holds_natives=holds_natives,
    control_nodes=control_nodes,
    control_eviction=control_eviction,
    control_entitlements=control_entitlements,
    team_subject=team_subject,
)
