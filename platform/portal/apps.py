"""Django application."""

from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate


class PortalConfig(AppConfig):
    """`portal`: the composition root, the only package that knows all others."""

    name = "portal"

    def ready(self) -> None:
        """Let `migrate` bring row-level security up to date at its end."""
        # The signal comes once for each app that has models, after all migrations.
        post_migrate.connect(_secure_rows, sender=apps.get_app_config("tenants"))


def _secure_rows(*, using: str, plan: object = None, **_: Any) -> None:
    # `flush` sends the signal, too, but without a plan. It changes no table.
    if plan is not None:
        from portal.row_policies import apply_policies

        apply_policies(using)
