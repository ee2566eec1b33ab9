"""Rows that row-level security hides, and a portal whose own filters let everything through."""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection

from portal.row_policies import policies
from tenants.access import Actor
from tenants.models import Node
from webapi.row_access import limited_rows

Keys = dict[str, set[str]]


def limited_tables() -> dict[str, str]:
    """Every limited table and its primary key as text, in SQL."""
    keys = {
        model._meta.db_table: "concat_ws(' ', "
        + ", ".join(f'"{field.column}"' for field in model._meta.pk_fields)
        + ")"
        for model in apps.get_models(include_auto_created=True)
    }
    return {table: keys[table] for table, _, _ in policies()}


def keys_seen(organizations: frozenset[UUID] | None) -> Keys:
    """The primary keys of the rows of each limited table that these organizations see."""
    with limited_rows(organizations), connection.cursor() as cursor:
        found: Keys = {}
        for table, key in limited_tables().items():
            cursor.execute(f'SELECT {key} FROM "{table}"')
            found[table] = {pk for (pk,) in cursor.fetchall()}
        return found


def keys_hidden_from(organization: UUID) -> Keys:
    """The primary keys of the rows that the organization does not see, by table; never empty."""
    seen, everything = keys_seen(frozenset({organization})), keys_seen(None)
    hidden = {table: keys - seen[table] for table, keys in everything.items()}
    return {table: keys for table, keys in hidden.items() if keys}


def digest_of_rows(keys: Keys) -> str:
    """A digest of the whole rows with these keys; a row that is gone changes it, too."""
    columns = limited_tables()
    digest = hashlib.sha256()
    with connection.cursor() as cursor:
        for table, some in sorted(keys.items()):
            key = columns[table]
            cursor.execute(
                f'SELECT to_jsonb(t)::text FROM "{table}" t WHERE {key} = ANY(%s) ORDER BY {key}',
                [sorted(some)],
            )
            digest.update(repr((table, cursor.fetchall())).encode())
    return digest.hexdigest()


def switch_filters_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every check of the portal's own code take everybody for somebody with all rights."""
    everywhere = tuple(
        Node.objects.filter(parent=None).order_by("path").values_list("path", flat=True)
    )
    for name in ("prefixes", "granted"):
        monkeypatch.setattr(Actor, name, lambda self, permission: everywhere)
    monkeypatch.setattr(Actor, "holds", lambda self, permission, path: True)
    monkeypatch.setattr(Actor, "permits", lambda self, permission: True)
    monkeypatch.setattr(Actor, "is_platform_admin", True)
