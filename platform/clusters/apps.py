"""Django application."""

from django.apps import AppConfig


class ClustersConfig(AppConfig):
    """`clusters`."""

    name = "clusters"
    default_auto_field = "django.db.models.BigAutoField"
