"""Local clusters: jobs are processes on the portal's own machine."""

from __future__ import annotations

from connectors.kinds import ClusterKind
from connectors.local import trust
from connectors.local.accounts import ACCOUNT_DAYS, open_account
from connectors.local.connector import check_local_options, first_inventory, open_local
from connectors.local.job_files import open_local_files
from connectors.local.metrics import open_metrics
from connectors.local.node_control import control_nodes
from connectors.local.options import LocalOptions, unit_mgpu
from connectors.options import schema_of

LOCAL = ClusterKind(
    name="local",
    label="Local",
    open=open_local,
    options_schema=schema_of(LocalOptions),
    check_options=check_local_options,
    check_trusted=trust.check_trusted,
    operator_settings=(trust.ROOTS, trust.FOLDERS, trust.RUN_AS, trust.UNISOLATED, trust.UIDS),
    operator_options=trust.operator_options,
    shows_options=True,
    runs_on_portal_machine=True,
    keeps_environments=True,
    writes_own_files=True,
    gpu_unit=unit_mgpu,
    open_files=open_local_files,
    open_account=open_account,
    account_days=ACCOUNT_DAYS,
    open_metrics=open_metrics,
    control_nodes=control_nodes,
    first_inventory=first_inventory,
)
