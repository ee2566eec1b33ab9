"""Django application."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """`quotas`."""

    name = "quotas"
    default_auto_field = "django.db.models.BigAutoField"
