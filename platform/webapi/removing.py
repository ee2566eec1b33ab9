"""Rows are deleted only while nothing refers to them; what was used stays, with its history."""

from __future__ import annotations

from django.db import IntegrityError, models, transaction

from primitives.errors import Conflict


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
    for relation in row._meta.get_fields(include_hidden=True):
        if not isinstance(relation, models.ManyToOneRel) or relation.on_delete != models.PROTECT:
            continue
        field, model = relation.field, relation.related_model
        # Without a constraint it says nothing that others do not.
        if not getattr(field, "db_constraint", True):
            continue
        if model._base_manager.filter(**{field.name: row}).exclude(pk=row.pk).exists():
            found.add(str(model._meta.verbose_name_plural))
    return sorted(found)
