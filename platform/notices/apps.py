"""Django application."""

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    """`notices`."""

    name = "notices"
    default_auto_field = "django.db.models.BigAutoField"
