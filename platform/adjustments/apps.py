"""Django application."""

from django.apps import AppConfig


class AdjustmentsConfig(AppConfig):
    """`adjustments`."""

    name = "adjustments"
    default_auto_field = "django.db.models.BigAutoField"
