"""Django application."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """`tenants`."""

    name = "tenants"
    default_auto_field = "django.db.models.BigAutoField"
