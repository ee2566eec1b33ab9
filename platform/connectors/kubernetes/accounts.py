"""The account of a Kubernetes cluster: the objects that it still has of our attempts.

The objects are listed anew for each comparison. So the account does not depend on the watches, from
which the meter gets its events. Attempts are deleted on the cluster 14 days after their end.
"""

from __future__ import annotations

from connectors.accounts import AccountedRuns
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.objects import naming
from connectors.kubernetes.workloads.accounting import accounted_runs
from connectors.protocol import ClusterConnector

#: For how long the cluster has an attempt after its end (`jobs.execution.retention`).
ACCOUNT_DAYS = 14


def open_account(connector: ClusterConnector) -> KubernetesAccount:
    """Return the account of the Kubernetes cluster of `connector`."""
    assert isinstance(connector, KubernetesConnector)
    return KubernetesAccount(connector)


class KubernetesAccount:
    """Implements `connectors.accounts.ClusterAccount`."""

    def __init__(self, connector: KubernetesConnector) -> None:
        self._connector = connector

    def account_of(self, team: str) -> str:
        """See the protocol. The account is the team's namespace."""
        return naming.team_namespace(team)

    def runs(self, *, start: int, end: int) -> AccountedRuns:
        """See the protocol. Objects that somebody else deleted are missing.

        Authors may delete native workloads at any time, so these are left out.
        """
        connector = self._connector
        state = connector.listed_state()
        found = accounted_runs(
            state, cluster_id=connector.cluster_id, pools=connector.options.pools
        )
        return AccountedRuns(
            state.observed_at,
            tuple(
                run
                for run in found
                if run.started_at < end and (run.ended_at is None or run.ended_at > start)
            ),
            has_natives=False,
        )
