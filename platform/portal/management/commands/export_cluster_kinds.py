"""`manage.py export_cluster_kinds FILE`: write what GET /cluster-kinds answers, for the mock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from connectors.registry import kinds_by_label
from quotas.api.fleet_serializers import ClusterKindSerializer


class Command(BaseCommand):
    """Writes the kinds of cluster with the schemas of their options."""

    help = "Write the kinds of cluster to FILE, as the API answers them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the FILE to write."""
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the kinds."""
        kinds = [ClusterKindSerializer(kind).data for kind in kinds_by_label()]
        text = json.dumps(kinds, indent=2, ensure_ascii=False)
        options["file"].write_text(text + "\n", encoding="utf-8")
