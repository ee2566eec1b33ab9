"""Django application."""

from django.apps import AppConfig


class ExportsConfig(AppConfig):
    """`exports`."""

    name = "exports"
    default_auto_field = "django.db.models.BigAutoField"
