#!/usr/bin/env python3
"""Django's command line for Tidegate."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run a management command with `platform/` as a source root."""
    here = Path(__file__).resolve().parent
    for root in (here / "platform", here):
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
