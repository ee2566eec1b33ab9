"""Django's PostgreSQL backend with `Pool`, and with row-level security as `webapi.row_access` says.

A statement for some organizations runs in the role `TENANT_ROLE`, whose policies
(`portal.row_policies`) show the rows of these organizations only. All other statements run in the
role of the log-in.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import psycopg
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

from portal.database.pool import Connection, Pool
from primitives.database_roles import TENANT_ROLE
from webapi.row_access import Rows, rows_now

_creating = Lock()
#: Stands for what a server was told last, where a rollback may have taken it back.
_UNKNOWN = object()
_LIMIT = "SELECT set_config('role', %s, false), set_config('tidegate.organizations', %s, false)"


class DatabaseWrapper(base.DatabaseWrapper):
    """One pool per alias and process, with the size from `OPTIONS["pool"]`."""

    _connection_pools: dict[str, Any] = {}

    @property
    def pool(self) -> Pool | None:
        """Return the pool of this alias, or None where connections are not pooled."""
        options = self.settings_dict["OPTIONS"].get("pool")
        if self.alias == NO_DB_ALIAS or not options:
            return None
        with _creating:
            if self.alias not in self._connection_pools:
                parameters = self.get_connection_params() | {"autocommit": True}
                self._connection_pools[self.alias] = Pool(
                    lambda: self._connected(parameters), **options
                )
            found: Pool = self._connection_pools[self.alias]
            return found

    def close_pool(self) -> None:
        """Close the pool of this alias. The next query creates another one."""
        with _creating:
            found = self._connection_pools.pop(self.alias, None)
        if found is not None:
            found.close()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute_wrappers.append(self._execute_limited)

    def _execute_limited(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """Run a statement with the rows of this moment, whenever its cursor was made."""
        self._limit(rows_now())
        return execute(sql, params, many, context)

    def _limit(self, rows: Rows) -> None:
        """Tell the server about `rows`, unless it knows. A broken transaction runs nothing more."""
        server: Any = self.connection
        if getattr(server, "rows", None) == rows:
            return
        if server.info.transaction_status == TransactionStatus.INERROR:
            return
        role = "none" if rows is None else TENANT_ROLE
        ids = "" if rows is None else "{" + ",".join(sorted(map(str, rows))) + "}"
        with self.wrap_database_errors:
            server.execute(_LIMIT, [role, ids])
        server.rows = rows

    def _set_autocommit(self, autocommit: bool) -> None:
        """Tell the server about the rows before a transaction, whose first statement may be SET."""
        if not autocommit:
            self._limit(rows_now())
        super()._set_autocommit(autocommit)  # type: ignore[misc]

    def _close(self) -> None:
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            self._forget_rows()
        super()._close()  # type: ignore[misc]

    def _commit(self) -> None:
        # PostgreSQL rolls a broken transaction back, without an error.
        if self.connection.info.transaction_status == TransactionStatus.INERROR:
            self._forget_rows()
        super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        super()._rollback()  # type: ignore[misc]
        self._forget_rows()

    def _savepoint_rollback(self, sid: str) -> None:
        super()._savepoint_rollback(sid)  # type: ignore[misc]
        self._forget_rows()

    def _forget_rows(self) -> None:
        """Note that a rollback may have taken back what the server was told."""
        if self.connection is not None:
            self.connection.rows = _UNKNOWN

    def _connected(self, parameters: dict[str, Any]) -> Connection:
        made = psycopg.connect(**parameters)
        try:
            # Django's own method that sets time zone and role of a pooled connection.
            self._configure_connection(made)  # type: ignore[attr-defined]
        except BaseException:
            made.close()
            raise
        return made
