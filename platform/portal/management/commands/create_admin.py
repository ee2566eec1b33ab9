"""`tidegate-admin create-admin`: create a platform administrator, the first or another one."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from primitives.clock import SystemClock
from primitives.errors import PortalError
from tenants.administrators import create_administrator


class Command(BaseCommand):
    """Asks for missing values. A password is never given on the command line."""

    help = "Create a platform administrator, who signs in with login and password."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add login, name, and the source of the password."""
        parser.add_argument("--username", help="the login (default: ask for it)")
        parser.add_argument("--name", help="the name that people see (default: the login)")
        parser.add_argument(
            "--password-stdin",
            action="store_true",
            help="read the password from standard input instead of asking for it twice",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Create the administrator and confirm it."""
        username = options["username"] or _asked("Login [admin]: ") or "admin"
        password = (
            sys.stdin.readline().rstrip("\r\n") if options["password_stdin"] else _chosen_password()
        )
        try:
            user = create_administrator(
                username=username,
                name=options["name"] or username,
                password=password,
                now=SystemClock().now(),
            )
        except PortalError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"{user.login} is a platform administrator and can sign in now.")


def _asked(prompt: str) -> str:
    """Return the line that a person types. Raises CommandError without a terminal."""
    if not sys.stdin.isatty():
        raise CommandError("This is not a terminal. Give --username and --password-stdin.")
    return input(prompt).strip()


def _chosen_password() -> str:
    """Return a password typed twice. Raises CommandError without a terminal, or if they differ."""
    if not sys.stdin.isatty():
        raise CommandError("This is not a terminal. Pipe the password in with --password-stdin.")
    password = getpass.getpass("Password (at least 12 characters): ")
    if getpass.getpass("Repeat the password: ") != password:
        raise CommandError("The two passwords differ. Try again.")
    return password
