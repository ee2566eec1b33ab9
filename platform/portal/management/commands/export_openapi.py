"""`manage.py export_openapi FILE`: write the API's description, as committed for clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from portal.openapi import openapi_document


class Command(BaseCommand):
    """Writes the OpenAPI document, sorted, so that diffs are readable."""

    help = "Write the OpenAPI 3.1 document to FILE."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the FILE to write."""
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the document."""
        text = json.dumps(openapi_document(), indent=2, sort_keys=True, ensure_ascii=False)
        options["file"].write_text(text + "\n", encoding="utf-8")
