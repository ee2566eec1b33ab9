"""`manage.py load_demo`: load the demo company, with a login and a token for each role."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.demo import company_file, loading, persona_file
from primitives.clock import SystemClock
from primitives.errors import PortalError

COMPANY = Path(company_file.__file__).with_name("ai-company.yaml")


class Command(BaseCommand):
    """Loads missing parts of the demo. Secrets go to a private file only. Safe to repeat."""

    help = "Load the demo: AI Company with 1,000 virtual GPUs."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the state folder and the portal's address."""
        parser.add_argument("--state-dir", type=Path, default=settings.STATE_DIR)
        port = os.environ.get("TIDEGATE_PORT") or "8000"
        parser.add_argument("--base-url", default=f"http://127.0.0.1:{port}")
        parser.add_argument(
            "--unless-people",
            action="store_true",
            help="where real people work, print so and exit with success",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Load the demo, write `demo.json`, and print where it is."""
        state: Path = options["state_dir"].resolve()
        file = state / "demo.json"
        address = str(options["base_url"]).rstrip("/")
        try:
            company = company_file.read_company(COMPANY.read_text(encoding="utf-8"))
            personas, renewed = loading.load_company(
                company,
                cluster_root=str(state / "local"),
                known=persona_file.read_personas(file),
                now=SystemClock().now(),
            )
            persona_file.write_personas(file, address=address, personas=personas)
        except loading.RealPeople as refused:
            if not options["unless_people"]:
                raise CommandError(refused.detail) from refused
            self.stdout.write(refused.detail)
            return
        except company_file.CompanyFileError as error:
            raise CommandError(f"{COMPANY.name}: {error}") from error
        except PortalError as error:
            raise CommandError(error.detail) from error
        except OSError as error:
            raise CommandError(f"Cannot write {file}: {error.strerror}.") from error
        if renewed:
            self.stdout.write(
                f"{file} was missing or outdated; new passwords or tokens for: "
                f"{', '.join(renewed)}."
            )
        # Secrets are not printed, because under `make up` this output is a log file.
        self.stdout.write(f"Logins, passwords and tokens of {len(personas)} people are in {file}.")
