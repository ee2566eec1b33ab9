"""Django application."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """`audit`."""

    name = "audit"
    default_auto_field = "django.db.models.BigAutoField"
