"""Slurm clusters, over slurmrestd."""

from __future__ import annotations

from connectors.kinds import ClusterKind
from connectors.options import schema_of
from connectors.slurm import trust
from connectors.slurm.accounts import open_account
from connectors.slurm.connector import check_slurm_options, open_slurm, open_slurm_logs
from connectors.slurm.entitlements import control_entitlements
from connectors.slurm.job_files import open_slurm_files
from connectors.slurm.metrics import open_metrics
from connectors.slurm.natives import control_natives
from connectors.slurm.node_control import cannot_change_nodes, control_nodes
from connectors.slurm.options import SlurmOptions, runs_images
from connectors.slurm.recalling import open_slurm_recaller
from primitives.units import MGPU_PER_GPU

SLURM = ClusterKind(
    name="slurm",
    label="Slurm",
    open=open_slurm,
    options_schema=schema_of(SlurmOptions),
    check_options=check_slurm_options,
    check_trusted=trust.check_trusted,
    operator_settings=(trust.ORIGINS, trust.MINTERS),
    secret_paths=trust.secret_paths,
    lasting_options=frozenset({"url", "tag_secret", "tag_secret_file", "cluster_name"}),
    address_option="url",
    service_user_option="service_user",
    has_users=True,
    has_slurm_commands=True,
    keeps_environments=True,
    writes_own_files=True,
    # A job's shell asks for its limit 16 s before its notice, and the message takes some seconds.
    extension_delay_s=30,
    submits_held=True,
    gpu_unit=lambda options, pool: MGPU_PER_GPU,
    runs_images=runs_images,
    open_logs=open_slurm_logs,
    open_files=open_slurm_files,
    open_recaller=open_slurm_recaller,
    open_account=open_account,
    open_metrics=open_metrics,
    control_natives=control_natives,
    control_nodes=control_nodes,
    refuse_nodes=cannot_change_nodes,
    control_entitlements=control_entitlements,
)
