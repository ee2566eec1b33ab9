"""Django's PostgreSQL backend with `Pool` in the place of psycopg's own pool."""

from __future__ import annotations

from threading import Lock
from typing import Any

import psycopg
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base

from portal.database.pool import Connection, Pool

_creating = Lock()


class DatabaseWrapper(base.DatabaseWrapper):
    """One pool for each alias and process, of the size that `OPTIONS["pool"]` gives."""

    _connection_pools: dict[str, Any] = {}

    @property
    def pool(self) -> Pool | None:
        """The pool of this alias; None where connections are not pooled."""
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
        """Close the pool of this alias; the next query makes another."""
        with _creating:
            found = self._connection_pools.pop(self.alias, None)
        if found is not None:
            found.close()

    def _connected(self, parameters: dict[str, Any]) -> Connection:
        made = psycopg.connect(**parameters)
        try:
            # Django's own way to set the time zone and the role of a connection of its pool.
            self._configure_connection(made)  # type: ignore[attr-defined]
        except BaseException:
            made.close()
            raise
        return made
