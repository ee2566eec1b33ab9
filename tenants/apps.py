"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """`tenants`."""

    name = "tenants"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the ways to authenticate with OpenAPI."""
        import_module("tenants.api.openapi")
