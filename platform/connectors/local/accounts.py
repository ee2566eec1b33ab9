"""The account of this machine: the supervisors' records of what ran."""

from __future__ import annotations

import time
from collections.abc import Mapping

from connectors.accounts import AccountedRun, AccountedRuns
from connectors.local.attempt_files import integer, integer_or_none, text
from connectors.local.connector import LocalConnector
from connectors.protocol import ClusterConnector

#: The marks of forgotten attempts stay for 30 days, and attempts for 14 days before that.
ACCOUNT_DAYS = 40


def open_account(connector: ClusterConnector) -> LocalAccount:
    """Return the account of the local cluster of `connector`."""
    assert isinstance(connector, LocalConnector)
    return LocalAccount(connector)


class LocalAccount:
    """Implements `connectors.accounts.ClusterAccount`."""

    def __init__(self, connector: LocalConnector) -> None:
        self._connector = connector

    def account_of(self, team: str) -> str:
        """See the protocol. The account is the team's path."""
        return team

    def runs(self, *, start: int, end: int) -> AccountedRuns:
        """See the protocol. An attempt that never began has no run."""
        as_of = int(time.time())
        runs = {key: _run(key, record) for key, record in self._connector.run_records()}
        return AccountedRuns(
            as_of,
            tuple(
                run
                for run in runs.values()
                if run.started_at < end and (run.ended_at is None or run.ended_at > start)
            ),
            has_natives=False,
        )


def _run(key: str, record: Mapping[str, object]) -> AccountedRun:
    """Return the run of one record. Raises CorruptRecord."""
    return AccountedRun(
        native_id=key,
        submitted_at=integer(record, "submitted_at"),
        key=key,
        name=key,
        user=text(record, "user"),
        account=text(record, "team"),
        pool=text(record, "pool"),
        mgpu=integer(record, "mgpu"),
        started_at=integer(record, "started_at"),
        ended_at=integer_or_none(record, "released_at"),
        state=text(record, "native_state"),
    )
