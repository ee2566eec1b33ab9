"""Django application."""

from django.apps import AppConfig


class PortalConfig(AppConfig):
    """`portal`: the composition root, the only package that knows all others."""

    name = "portal"
