"""The failures of a connector. Anything else that escapes one is a bug."""

from __future__ import annotations


class ConnectorError(Exception):
    """Base of the failures below."""


class ClusterUnavailable(ConnectorError):
    """The cluster did not answer in time or not sensibly: retry later, nothing is known."""


class ControllerAway(ClusterUnavailable):
    """The cluster answers, and a controller in it whose consent is needed does not. `told` is what
    everybody may read of it, without the cluster's own words."""

    def __init__(self, words: str, told: str) -> None:
        super().__init__(words)
        self.told = told


class AnotherCluster(ClusterUnavailable):
    """What answers is not the cluster that answered before: nothing of it is believed."""


class AccountUndecided(ClusterUnavailable):
    """The accounting answers, and what it says of this one workload settles nothing yet."""


class NativeRefused(ClusterUnavailable):
    """The cluster answers, and refuses this for this one workload: others are not concerned."""


class OutcomeUnknown(ClusterUnavailable):
    """The call may have had its effect: look before sending again."""


class NotOffered(ConnectorError):
    """This cluster's API version cannot do that."""


class WorkloadRejected(ConnectorError):
    """The cluster will never accept this workload: do not retry; the text says why."""


class NotPrepared(WorkloadRejected):
    """The cluster lacks what it needs for this workload's user or team, which somebody can set up
    there: it may take the workload later, and others may take it now. The text says what."""


class NodeRefused(ConnectorError):
    """The cluster will not change this node so: do not retry; the text says why."""


class UnknownNativeState(ConnectorError):
    """The cluster reports a state that we do not know: stop and tell a person."""


class LogUnavailable(ConnectorError):
    """There is no such log here, or not yet; the text says which."""
