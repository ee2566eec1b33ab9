"""Refusals that only jobs know."""

from __future__ import annotations

from primitives.errors import PortalError


class NeverFits(PortalError):
    """More was asked for than quota or the fleet could give even if nothing else ran."""

    code = "never_fits"
    http_status = 400
    title = "This can never run as asked for"


class TooManyOpenJobs(PortalError):
    """Too many jobs that have not ended yet, of this user or organization."""

    code = "too_many_open_jobs"
    http_status = 429
    title = "Too many jobs are open"


class TooManyDependencies(PortalError):
    """Too much that open jobs of this user or organization still wait for."""

    code = "too_many_dependencies"
    http_status = 429
    title = "Too much is waited for"


class ClusterAway(PortalError):
    """A cluster does not answer; nothing is known, try again."""

    code = "cluster_unavailable"
    http_status = 503
    title = "The cluster does not answer"
