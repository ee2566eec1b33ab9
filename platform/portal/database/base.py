"""Django's PostgreSQL backend with `Pool` instead of psycopg's own pool."""

from __future__ import annotations

from threading import Lock
from typing import Any

import psycopg
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base

from portal.database.pool import Connection, Pool

_creating = Lock()


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

    def _connected(self, parameters: dict[str, Any]) -> Connection:
        made = psycopg.connect(**parameters)
        try:
            # Django's own method that sets time zone and role of a pooled connection.
            self._configure_connection(made)  # type: ignore[attr-defined]
        except BaseException:
            made.close()
            raise
        return made
