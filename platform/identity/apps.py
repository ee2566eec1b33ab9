"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class IdentityConfig(AppConfig):
    """`identity`."""

    name = "identity"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let the acts of administrators win over those of SCIM."""
        import_module("identity.scim.people").register()
