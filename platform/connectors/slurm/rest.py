"""A client of slurmrestd: the controller and the accounting of one cluster at one address."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import httpx

from connectors.slurm.accounting import SlurmAccounting
from connectors.slurm.controller import SlurmController
from connectors.slurm.transport import ClusterName, SlurmTransport, TokenSource, another_cluster


class SlurmRest:
    """One cluster, for several threads at once: `controller` and `accounting` over one transport.

    `cluster` is the name that it must have. With it, nothing is written before the cluster has
    reported its name. Every answer with a different name raises AnotherCluster.
    """

    def __init__(
        self,
        url: str,
        tokens: TokenSource,
        *,
        service_user: str,
        version: str | None = None,
        cluster: str | None = None,
        read_timeout_s: float = 30.0,
        connect_timeout_s: float = 3.0,
        transport: httpx.BaseTransport | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = ClusterName(cluster)
        self._transport = SlurmTransport(
            url,
            tokens,
            service_user=service_user,
            name=self._name,
            ask_name=self.check_cluster,
            version=version,
            read_timeout_s=read_timeout_s,
            connect_timeout_s=connect_timeout_s,
            transport=transport,
            monotonic_s=monotonic_s,
        )
        self.controller = SlurmController(self._transport, monotonic_s=monotonic_s)
        self.accounting = SlurmAccounting(self._transport, diag=self.controller.diag)

    def close(self) -> None:
        """Close the connections. The client must not be used afterwards."""
        self._transport.close()

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """See `SlurmTransport.within`."""
        return self._transport.within(seconds)

    def left_s(self) -> float | None:
        """See `SlurmTransport.left_s`."""
        return self._transport.left_s()

    @property
    def version(self) -> str:
        """The API version in use; asks the cluster when it is not known yet."""
        return self._transport.version

    @property
    def cluster(self) -> str | None:
        """The name that the cluster reported last; None before the first one."""
        return self._name.told

    def check_cluster(self) -> None:
        """Have the cluster report its name, from its accounting if necessary.

        Raises AnotherCluster, and ClusterUnavailable when no name can be read.
        """
        self._name.told = None
        self.controller.ping()
        if self._name.told is None:
            self.controller.jobs()
        if self._name.told is None:
            self.ask_accounting_who_it_is()

    def ask_accounting_who_it_is(self) -> None:
        """Compare its name with those in its accounting. Raises the errors of `check_cluster`."""
        names = self.accounting.clusters()
        if self._name.wanted is not None and self._name.wanted in names:
            self._name.told = self._name.wanted
        elif len(names) == 1:
            self._name.note(names)
        elif self._name.wanted is not None:
            raise another_cluster(self._name.wanted, " or ".join(sorted(names)) or "no cluster")
