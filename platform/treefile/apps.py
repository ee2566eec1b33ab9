"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class TreefileConfig(AppConfig):
    """`treefile`, which has no tables."""

    name = "treefile"

    def ready(self) -> None:
        """Add imports to the writes that a second person may approve."""
        import_module("treefile.importing").register()
