"""The database has what the models say."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model

pytestmark = pytest.mark.django_db


def declared(model: type[Model]) -> set[str]:
    """Return the names of the constraints and indexes of a model."""
    meta = model._meta
    return {each.name for each in (*meta.constraints, *meta.indexes)}


def test_every_constraint_and_index_of_a_model_is_in_the_database() -> None:
    """Planted: a foreign key loses its index, and Django drops partial unique indexes with it."""
    missing = {}
    with connection.cursor() as cursor:
        for model in apps.get_models():
            table = model._meta.db_table
            found = connection.introspection.get_constraints(cursor, table)
            if absent := declared(model) - set(found):
                missing[table] = absent
    assert missing == {}
    assert sum(len(declared(model)) for model in apps.get_models()) > 100
