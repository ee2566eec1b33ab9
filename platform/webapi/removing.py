"""Deletes rows that no other row refers to. Rows that were used stay, with their history."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, models, transaction

from primitives.errors import Conflict

#: Words for the rows of each model that can refer to another row.
_WORDS = {
    "adjustments.adjustment": "adjustments of charges",
    "adjustments.adjustmentpolicy": "a threshold for adjustments",
    "adjustments.dispute": "disputes about charges",
    "approvals.changerequest": "requests",
    "approvals.counteroffer": "requests",
    "approvals.guardedwrite": "requests",
    "approvals.requestcomment": "requests",
    "bank.creditbank": "a credit bank",
    "bank.creditlot": "credits",
    "bank.creditnotice": "notices about credits",
    "bank.creditpool": "credits",
    "bank.credittransfer": "transfers of credits",
    "bank.settlementline": "settled credits",
    "billing.meteredparty": "bills",
    "billing.poolterms": "terms of prices",
    "billing.rateline": "prices",
    "billing.reconciliation": "reconciled days",
    "budgets.budget": "budgets",
    "budgets.budgetdefault": "default budgets",
    "budgets.budgetevaluation": "budgets",
    "clusters.capacitysegment": "a history of its capacity",
    "clusters.clusternode": "nodes",
    "clusters.noderequest": "nodes",
    "clusters.poolalias": "other names",
    "exports.chargeaudit": "audits of its charges",
    "exports.delivery": "deliveries of files",
    "exports.deliveryschedule": "deliveries of files",
    "exports.export": "exported files",
    "exports.exportpolicy": "a choice of names in files",
    "exports.pseudonymkey": "exported files",
    "identity.devicelogin": "logins of machines",
    "identity.externalidentity": "sign-ins with an identity provider",
    "identity.groupmapping": "groups that give roles",
    "identity.identityprovider": "an identity provider",
    "identity.provisionedgroup": "groups of SCIM",
    "identity.provisionedperson": "people of SCIM",
    "identity.scimsettings": "settings of SCIM",
    "identity.scimtoken": "tokens for SCIM",
    "jobs.attempt": "jobs",
    "jobs.job": "jobs",
    "jobs.jobarray": "jobs",
    "jobs.jobtemplate": "templates of jobs",
    "jobs.reclaim": "jobs",
    "jobs.savedview": "shared views of jobs",
    "jobs.schedule": "schedules",
    "jobs.schedulerun": "runs of schedules",
    "periods.accountingcode": "accounting codes",
    "periods.billingperiod": "closed months",
    "periods.chargerow": "charges of closed months",
    "periods.statement": "statements",
    "periods.statementcounter": "statements",
    "periods.statementline": "statements",
    "maintenance.maintenancewindow": "maintenance windows",
    "quotas.accepteddifference": "accepted differences",
    "quotas.clusteruser": "accounts of users on clusters",
    "quotas.plannedchange": "planned changes of quotas",
    "notices.announcement": "announcements",
    "quotas.quota": "quotas",
    "quotas.quotachange": "changes of quotas",
    "quotas.quotapush": "quota pushes",
    "quotas.secondpersonpolicy": "rules about a second person",
    "quotas.timelimit": "time limits",
    "quotas.usercap": "caps for users",
    "quotas.usernumber": "a user number",
    "socialaccount.socialaccount": "sign-ins with an identity provider",
    "account.emailaddress": "email addresses",
    "tenants.accesstoken": "access tokens",
    "tenants.authenticatorapp": "second factors",
    "tenants.recoverycode": "second factors",
    "tenants.securitykey": "second factors",
    "tenants.passwordlink": "a link for a password",
    "tenants.invitation": "invitations",
    "tenants.rolegrant": "roles, held or given",
    "tenants.session": "browser sessions",
}


def delete_unused(row: models.Model, *, called: str, instead: str) -> None:
    """Delete a row that no other row refers to. Must run in a transaction.

    Raises Conflict that lists the referring rows and says what to do `instead`: "Archive it".
    """
    uses = _uses(row)
    try:
        with transaction.atomic():
            if not uses:
                row.delete()
    except IntegrityError:
        # Another transaction created a reference after the check.
        uses = _uses(row) or ["other rows that refer to it"]
    if uses:
        raise Conflict(
            f"{called} has {', '.join(uses)}, so deletion is not possible. {instead} instead.",
            used_by=uses,
        )


def _uses(row: models.Model) -> list[str]:
    """Return the kinds of rows that refer to `row`, in words.

    Each kind costs one query, which ends at the first row.
    """
    found = set()
    for field in references_to(type(row)):
        if field.model._base_manager.filter(**{field.name: row}).exclude(pk=row.pk).exists():
            found.add(in_words(field))
    return sorted(found)


def references_to(model: type[models.Model]) -> list[models.ForeignKey[Any, Any]]:
    """Return the foreign keys whose rows prevent the deletion of a row of `model`."""
    relations = [
        relation
        for relation in model._meta.get_fields(include_hidden=True)
        if isinstance(relation, models.ManyToOneRel) and relation.on_delete == models.PROTECT
    ]
    # A relation without a constraint repeats one that has a constraint.
    return [each.field for each in relations if getattr(each.field, "db_constraint", True)]


def in_words(field: models.ForeignKey[Any, Any]) -> str:
    """Return the words for the rows with this foreign key, in the plural."""
    return _WORDS[field.model._meta.label_lower]
