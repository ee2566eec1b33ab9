"""Django application."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """`outbox`."""

    name = "outbox"
    default_auto_field = "django.db.models.BigAutoField"
