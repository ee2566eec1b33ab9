"""Django application."""

from django.apps import AppConfig


class MaintenanceConfig(AppConfig):
    """`maintenance`."""

    name = "maintenance"
    default_auto_field = "django.db.models.BigAutoField"
