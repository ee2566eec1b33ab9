"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """`approvals`."""

    name = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register where writes that need a second person are stored."""
        import_module("approvals.guarded_writes").register()
        import_module("approvals.deciding").register()
