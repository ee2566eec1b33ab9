"""Errors that only this package raises."""

from __future__ import annotations

from primitives.errors import PortalError


class NeverFits(PortalError):
    """A request exceeds quota or fleet, even if nothing else ran."""

    code = "never_fits"
    http_status = 400
    title = "Cannot run as requested"


class TooManyOpenJobs(PortalError):
    """The user or organization has too many jobs that have not ended."""

    code = "too_many_open_jobs"
    http_status = 429
    title = "Too many jobs are open"


class TooManyDependencies(PortalError):
    """The open jobs of the user or organization have too many dependencies."""

    code = "too_many_dependencies"
    http_status = 429
    title = "Too many dependencies"


class ClusterAway(PortalError):
    """The cluster does not answer, so nothing is known. The caller may try again."""

    code = "cluster_unavailable"
    http_status = 503
    title = "The cluster does not answer"


class TooManySchedules(PortalError):
    """The user has too many schedules that have not ended."""

    code = "too_many_schedules"
    http_status = 429
    title = "Too many schedules"
