"""Django application."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """`jobs`."""

    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"
