"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """The Django application `jobs`."""

    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what packages below ask of jobs, and how attempts authenticate (OpenAPI)."""
        import_module("jobs.api.openapi")
        import_module("jobs.queue.budget_stops").register()
        import_module("jobs.whatif.stopped_jobs").register()
        import_module("jobs.actions.guarded").register()
