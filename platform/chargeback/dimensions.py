"""The dimensions by which a report groups use."""

from __future__ import annotations

from enum import StrEnum


class Dimension(StrEnum):
    """A property of use by which a report makes rows.

    A department is the one right below the organization, with everything below it. Cost centres and
    project codes are those that teams had in each month. Times are those of the organization's time
    zone.
    """

    ORGANIZATION = "organization"
    DEPARTMENT = "department"
    TEAM = "team"
    USER = "user"
    POOL = "pool"
    CLUSTER = "cluster"
    USAGE_CLASS = "usage_class"
    PRIORITY_CLASS = "priority_class"
    JOB_TYPE = "job_type"
    COST_CENTRE = "cost_centre"
    PROJECT_CODE = "project_code"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


NODES = (Dimension.ORGANIZATION, Dimension.DEPARTMENT, Dimension.TEAM)
#: The codes that accounting gives to nodes, month by month.
CODES = (Dimension.COST_CENTRE, Dimension.PROJECT_CODE)
TIMES = (Dimension.HOUR, Dimension.DAY, Dimension.WEEK, Dimension.MONTH)
#: The end of the name of a node above the visible ones: its sum looks like the whole and is not.
PART = " (part)"
#: The type of jobs that ran before their type was metered.
UNKNOWN = "(unknown)"
#: The cost centre or project code of teams without one.
UNCODED = "(none)"
#: The most dimensions of one report.
DIMENSIONS_MAX = 2


def node_label(path: str, dimension: Dimension) -> str:
    """Return the row of a team's path; the empty one for a team without a department."""
    steps = path.split("/")
    if dimension is Dimension.TEAM:
        return path
    if dimension is Dimension.ORGANIZATION:
        return steps[0]
    return "/".join(steps[:2]) if len(steps) > 2 else ""
