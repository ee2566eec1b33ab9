"""Permissions of each role: the single table behind every permission check."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Permission(StrEnum):
    """A right on a node of the tree and everything below it."""

    VIEW_TREE = "view_tree"
    VIEW_JOBS = "view_jobs"
    VIEW_JOB_CONTENT = "view_job_content"
    SUBMIT_JOBS = "submit_jobs"
    MANAGE_JOBS = "manage_jobs"
    MANAGE_MEMBERS = "manage_members"
    MANAGE_STRUCTURE = "manage_structure"
    MANAGE_QUOTA = "manage_quota"
    VIEW_COSTS = "view_costs"
    MANAGE_PRICES = "manage_prices"
    VIEW_AUDIT = "view_audit"
    MANAGE_CLUSTERS = "manage_clusters"


class Role(StrEnum):
    """A role that a grant names. It covers the subtree of the node on which it is granted."""

    PLATFORM_ADMIN = "platform_admin"
    ORGANIZATION_ADMIN = "organization_admin"
    DEPARTMENT_ADMIN = "department_admin"
    TEAM_LEAD = "team_lead"
    RESEARCHER = "researcher"
    FINANCE = "finance"
    AUDITOR = "auditor"
    SERVICE_ACCOUNT = "service_account"


_P = Permission
_ADMIN = frozenset(
    {
        _P.VIEW_TREE,
        _P.VIEW_JOBS,
        _P.VIEW_JOB_CONTENT,
        _P.SUBMIT_JOBS,
        _P.MANAGE_JOBS,
        _P.MANAGE_MEMBERS,
        _P.MANAGE_STRUCTURE,
        _P.MANAGE_QUOTA,
        _P.VIEW_COSTS,
        _P.VIEW_AUDIT,
    }
)

#: A person always sees and manages the own jobs, whatever the role. Finance never sees scripts,
#: environment or logs. An auditor sees everything except these.
PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.PLATFORM_ADMIN: frozenset(Permission),
    Role.ORGANIZATION_ADMIN: _ADMIN | {_P.MANAGE_PRICES},
    Role.DEPARTMENT_ADMIN: _ADMIN,
    Role.TEAM_LEAD: _ADMIN - {_P.MANAGE_STRUCTURE, _P.VIEW_AUDIT},
    Role.RESEARCHER: frozenset({_P.VIEW_TREE, _P.SUBMIT_JOBS}),
    Role.FINANCE: frozenset({_P.VIEW_TREE, _P.VIEW_JOBS, _P.VIEW_COSTS, _P.MANAGE_PRICES}),
    Role.AUDITOR: frozenset({_P.VIEW_TREE, _P.VIEW_JOBS, _P.VIEW_COSTS, _P.VIEW_AUDIT}),
    Role.SERVICE_ACCOUNT: frozenset({_P.VIEW_TREE, _P.SUBMIT_JOBS}),
}


#: The rights of each role in one sentence, for people who choose one.
SENTENCES: Mapping[Role, str] = {
    Role.PLATFORM_ADMIN: "Administers the installation: every organization, cluster and setting.",
    Role.ORGANIZATION_ADMIN: "Administers an organization: its tree, people, quotas, jobs and "
    "prices.",
    Role.DEPARTMENT_ADMIN: "Administers a part of the tree: its nodes, people, quotas and jobs, "
    "and reads its costs and audit log.",
    Role.TEAM_LEAD: "Leads a team: manages its people, quota and jobs, and reads its costs.",
    Role.RESEARCHER: "Submits jobs, and sees and manages the own ones.",
    Role.FINANCE: "Reads jobs without their scripts and logs, reads costs, and sets prices.",
    Role.AUDITOR: "Reads jobs without their scripts and logs, costs, and the audit log.",
    Role.SERVICE_ACCOUNT: "Submits jobs for a program, with access tokens.",
}


class Scope(StrEnum):
    """An allowed use of a token. The owner's rights limit it as well."""

    READ = "read"
    JOBS = "jobs"
    QUOTAS = "quotas"
    REPORTS = "reports"
    ADMIN = "admin"


#: Permissions that each token scope allows.
SCOPE_PERMISSIONS: Mapping[Scope, frozenset[Permission]] = {
    Scope.READ: frozenset({_P.VIEW_TREE, _P.VIEW_JOBS, _P.VIEW_JOB_CONTENT}),
    Scope.JOBS: frozenset(
        {_P.VIEW_TREE, _P.VIEW_JOBS, _P.VIEW_JOB_CONTENT, _P.SUBMIT_JOBS, _P.MANAGE_JOBS}
    ),
    Scope.QUOTAS: frozenset({_P.VIEW_TREE, _P.MANAGE_QUOTA}),
    Scope.REPORTS: frozenset({_P.VIEW_TREE, _P.VIEW_JOBS, _P.VIEW_COSTS}),
    Scope.ADMIN: frozenset(Permission),
}
