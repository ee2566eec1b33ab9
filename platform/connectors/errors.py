"""The failures of a connector. Anything else that escapes one is a bug."""

from __future__ import annotations


class ConnectorError(Exception):
    """Base of the failures below."""


class ClusterUnavailable(ConnectorError):
    """The cluster gave no answer in time, or no usable one. Nothing is known; retry later."""


class ControllerAway(ClusterUnavailable):
    """The cluster answers, but a controller in it whose consent is needed does not.

    `told` is the description for everybody; it contains none of the cluster's own words.
    """

    def __init__(self, words: str, told: str) -> None:
        super().__init__(words)
        self.told = told


class AnotherCluster(ClusterUnavailable):
    """A different cluster answers at this address. None of its answers is trusted."""


class AccountUndecided(ClusterUnavailable):
    """The accounting answers, but its records of this one workload are not conclusive yet."""


class NativeRefused(ClusterUnavailable):
    """The cluster refuses this action for this one workload. Other workloads are unaffected."""


class OutcomeUnknown(ClusterUnavailable):
    """The call may have taken effect. Check before sending it again."""


class NotOffered(ConnectorError):
    """This cluster's API version cannot do that."""


class WorkloadRejected(ConnectorError):
    """The cluster will never accept this workload: do not retry. The text says why."""


class NotPrepared(WorkloadRejected):
    """The cluster is not set up for this workload's user or team. The text says what is missing.

    An administrator can set it up. The cluster may accept the workload later, and others may accept
    it now.
    """


class NodeRefused(ConnectorError):
    """The cluster refuses this change of the node: do not retry. The text says why."""


class UnknownNativeState(ConnectorError):
    """The cluster reports a state that is unknown to us: stop and inform an operator."""


class LogUnavailable(ConnectorError):
    """No such log exists on the cluster, or it does not exist yet. The text says which."""
