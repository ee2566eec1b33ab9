"""Rows are deleted only while nothing refers to them; what was used stays, with its history."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, models, transaction

from primitives.errors import Conflict

#: What a row that refers to another is to people.
_WORDS = {
    "billing.meteredparty": "bills",
    "billing.rateline": "prices",
    "billing.reconciliation": "reconciled days",
    "clusters.capacitysegment": "a history of its capacity",
    "clusters.clusternode": "nodes",
    "clusters.noderequest": "nodes",
    "jobs.attempt": "jobs",
    "jobs.job": "jobs",
    "jobs.jobarray": "jobs",
    "jobs.reclaim": "jobs",
    "quotas.accepteddifference": "accepted differences",
    "quotas.clusteruser": "accounts of users on clusters",
    "quotas.plannedchange": "planned changes of quotas",
    "quotas.quota": "quotas",
    "quotas.quotachange": "changes of quotas",
    "quotas.quotapush": "quota pushes",
    "quotas.usernumber": "a user number",
    "tenants.accesstoken": "access tokens",
    "tenants.passwordlink": "a link for a password",
    "tenants.rolegrant": "roles, held or given",
}


def delete_unused(row: models.Model, *, called: str, instead: str) -> None:
    """Delete a row that no other row refers to. Must run in a transaction.

    Raises Conflict that names what refers to it, and says what to do `instead`: "Archive it".
    """
    uses = _uses(row)
    try:
        with transaction.atomic():
            if not uses:
                row.delete()
    except IntegrityError:
        # Something referred to it since it was asked.
        uses = _uses(row) or ["something that refers to it"]
    if uses:
        raise Conflict(
            f"{called} has {', '.join(uses)}. Only what was never used can be deleted. "
            f"{instead} instead.",
            used_by=uses,
        )


def _uses(row: models.Model) -> list[str]:
    """What refers to it, in words. A query for each kind, which ends at the first row."""
    found = set()
    for field in references_to(type(row)):
        if field.model._base_manager.filter(**{field.name: row}).exclude(pk=row.pk).exists():
            found.add(in_words(field))
    return sorted(found)


def references_to(model: type[models.Model]) -> list[models.ForeignKey[Any, Any]]:
    """The columns whose rows keep a row of `model` from being deleted."""
    relations = [
        relation
        for relation in model._meta.get_fields(include_hidden=True)
        if isinstance(relation, models.ManyToOneRel) and relation.on_delete == models.PROTECT
    ]
    # Without a constraint one says nothing that others do not.
    return [each.field for each in relations if getattr(each.field, "db_constraint", True)]


def in_words(field: models.ForeignKey[Any, Any]) -> str:
    """What the rows of this column's model are to people, in the plural."""
    return _WORDS[field.model._meta.label_lower]
