"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """`jobs`."""

    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Tell OpenAPI how an attempt is authenticated."""
        import_module("jobs.api.openapi")
