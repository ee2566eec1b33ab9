"""`tidegate-admin create-admin`: a platform administrator, the first one or one more."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from primitives.clock import SystemClock
from primitives.errors import PortalError
from tenants.administrators import create_administrator


class Command(BaseCommand):
    """Asks for what was not given; a password never stands on the command line."""

    help = "Create a platform administrator, who signs in with login and password."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Login and name, and where the password comes from."""
        parser.add_argument("--username", help="the login; asked for if absent")
        parser.add_argument("--name", help="for people to read; the login if absent")
        parser.add_argument(
            "--password-stdin",
            action="store_true",
            help="read the password from standard input instead of asking for it twice",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Create one and say where to go on."""
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
    """The line that a person types. Raises CommandError where nobody can."""
    if not sys.stdin.isatty():
        raise CommandError("Nobody can be asked here. Give --username and --password-stdin.")
    return input(prompt).strip()


def _chosen_password() -> str:
    """A password typed twice. Raises CommandError where nobody can, or the two differ."""
    if not sys.stdin.isatty():
        raise CommandError("Nobody can be asked here. Pipe the password in with --password-stdin.")
    password = getpass.getpass("Password (at least 12 characters): ")
    if getpass.getpass("The same again: ") != password:
        raise CommandError("The two passwords differ. Try again.")
    return password
