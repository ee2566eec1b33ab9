"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """The Django application `jobs`."""

    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the OpenAPI description of how attempts authenticate."""
        import_module("jobs.api.openapi")
