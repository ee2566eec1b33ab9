"""Django application."""

from django.apps import AppConfig


class IdentityConfig(AppConfig):
    """`identity`."""

    name = "identity"
    default_auto_field = "django.db.models.BigAutoField"
