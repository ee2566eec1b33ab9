"""`tidegate-admin reset-second-factor`: let a person in who lost every second factor."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from primitives.clock import SystemClock
from primitives.errors import PortalError
from tenants.second_factors import reset_factors_by_operator


class Command(BaseCommand):
    """For the last administrator. All others are reset by an administrator."""

    help = "Remove all second factors of a person, and end the person's sessions."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the login."""
        parser.add_argument("login", help="the person's login, such as admin or bob@ai-company")

    def handle(self, *args: Any, **options: Any) -> None:
        """Reset the factors and confirm it."""
        login = options["login"]
        try:
            reset_factors_by_operator(login=login, now=SystemClock().now())
        except PortalError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"{login} signs in with the password alone now. All sessions have ended.")
