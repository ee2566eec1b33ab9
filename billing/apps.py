"""Django application."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """`billing`."""

    name = "billing"
    default_auto_field = "django.db.models.BigAutoField"
