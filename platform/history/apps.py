"""Django application."""

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    """`history`."""

    name = "history"
