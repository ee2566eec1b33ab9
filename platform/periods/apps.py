"""Django application."""

from django.apps import AppConfig


class PeriodsConfig(AppConfig):
    """`periods`."""

    name = "periods"
    default_auto_field = "django.db.models.BigAutoField"
