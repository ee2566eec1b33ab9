"""The account of a toy cluster: what ran in it, as its own clock saw it."""

from __future__ import annotations

from connectors.accounts import AccountedRun, AccountedRuns
from connectors.protocol import ClusterConnector
from toy_kind import connector as toy_kind
from toy_kind.connector import ToyConnector, ToyRun


def open_account(connector: ClusterConnector) -> ToyAccount:
    """The account of the toy cluster of `connector`."""
    assert isinstance(connector, ToyConnector)
    return ToyAccount(connector)


class ToyAccount:
    """Implements `connectors.accounts.ClusterAccount`. Nothing is ever forgotten."""

    def __init__(self, connector: ToyConnector) -> None:
        self._connector = connector

    def account_of(self, team: str) -> str:
        """See the protocol. The account is the team's path."""
        return team

    def runs(self, *, start: int, end: int) -> AccountedRuns:
        """See the protocol."""
        runs = [_accounted(key, run) for key, run in self._connector.cluster().runs.items()]
        return AccountedRuns(
            toy_kind.now_s(),
            tuple(
                run
                for run in runs
                if run.started_at < end and (run.ended_at is None or run.ended_at > start)
            ),
            has_natives=False,
        )


def _accounted(key: str, run: ToyRun) -> AccountedRun:
    return AccountedRun(
        native_id=key,
        submitted_at=run.started_at,
        key=key,
        name=run.workload.name,
        user=run.workload.user,
        account=run.workload.team,
        pool=run.workload.pool,
        mgpu=sum(slot.mgpu for slot in run.workload.slots),
        started_at=run.started_at,
        ended_at=run.ended_at,
        state="running" if run.outcome is None else run.outcome.value,
    )
