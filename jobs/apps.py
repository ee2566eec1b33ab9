"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """The Django application `jobs`."""

    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register how attempts authenticate (OpenAPI), and how budgets read running attempts."""
        import_module("jobs.api.openapi")
        import_module("jobs.queue.budget_stops").register()
