"""Finds our jobs in the accounting of a Slurm cluster by their tags."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from connectors.errors import ClusterUnavailable, UnknownNativeState
from connectors.protocol import Observation
from connectors.slurm.logs import RankExits
from connectors.slurm.naming import key_of
from connectors.slurm.observing import ended_observation
from connectors.slurm.options import SlurmOptions, parse_options
from connectors.slurm.resizing import joined
from connectors.slurm.rest import SlurmRest
from connectors.slurm.tokens import MinterTokens
from connectors.slurm.transport import TokenSource

#: The longest time to look back, in seconds: no older backup is of use.
LOOKS_BACK_S_MAX = 90 * 24 * 3_600


def open_slurm_recaller(options: Mapping[str, Any]) -> SlurmRecaller:
    """Open a recaller. Raises ValueError for bad options."""
    checked = parse_options(options)
    return SlurmRecaller(checked, MinterTokens(checked.token_socket))


class SlurmRecaller:
    """Implements `connectors.recalling.Recaller`."""

    def __init__(self, options: SlurmOptions, tokens: TokenSource) -> None:
        self._options = options
        self._tokens = tokens

    def ended_since(
        self, since: int, *, listed: Collection[str] = ()
    ) -> Mapping[str, tuple[Observation, ...]]:
        """See the protocol. Raises ClusterUnavailable while the accounting has a backlog."""
        rest = SlurmRest(
            self._options.url,
            self._tokens,
            service_user=self._options.service_user,
            version=self._options.api_version,
        )
        try:
            now = rest.controller.diag()
            if now.accounting_backlog:
                raise ClusterUnavailable("the cluster's accounting is late; it will know more soon")
            runs = rest.accounting.history(
                # The cluster's clock may have been set back since.
                start=min(max(since, now.observed_at - LOOKS_BACK_S_MAX), now.observed_at),
                end=now.observed_at,
                listed=frozenset(listed),
            )
        finally:
            rest.close()
        found: dict[str, list[Observation]] = {}
        for run in sorted(joined(runs), key=lambda run: run.end_time or 0):
            key = key_of(self._options.tag_secret, run.name, run.user)
            if key is None or run.end_time is None or not run.nodes:
                continue
            try:
                seen = ended_observation(key, run, RankExits())
            except UnknownNativeState as error:
                raise ClusterUnavailable(str(error)) from error
            found.setdefault(key, []).append(seen)
        return {key: tuple(observations) for key, observations in found.items()}
