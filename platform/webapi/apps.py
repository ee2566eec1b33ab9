"""Django application."""

from django.apps import AppConfig


class WebApiConfig(AppConfig):
    """`webapi`."""

    name = "webapi"
    default_auto_field = "django.db.models.BigAutoField"
