"""`tidegate-admin`: commands for the operator on the portal's machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from django.core.management import load_command_class

#: Maps each command's name to the portal's management command and its description. Help needs no
#: settings, so the descriptions are not read from the commands.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "audit": ("audit_charges", "Compute the charges of a month again with DuckDB."),
    "create-admin": ("create_admin", "Create a platform administrator."),
    "begin-quarantine": ("begin_quarantine", "Forbid all starts until clusters were compared."),
    "check-ledgers": ("check_ledgers", "Prove the ledgers of credits and money."),
    "end-quarantine": ("end_quarantine", "Allow starts again after a restore."),
    "reset-second-factor": ("reset_second_factor", "Let a person in who lost a second factor."),
}
_WRONG_USE = 2


def main(words: Sequence[str] | None = None) -> None:
    """Run the command that the first word names, with the other words as its options.

    Raises SystemExit with 0 for help, 1 where the command fails, and 2 for wrong usage.
    """
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in {"-h", "--help"}:
        print(_usage())
        raise SystemExit(0 if words else _WRONG_USE)
    if words[0] not in COMMANDS:
        print(f"Unknown command {words[0]!r}.\n\n{_usage()}", file=sys.stderr)
        raise SystemExit(_WRONG_USE)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    command = load_command_class("portal", COMMANDS[words[0]][0])
    command.run_from_argv(["tidegate-admin", *words])


def _usage() -> str:
    return "\n".join(
        [
            "usage: tidegate-admin COMMAND [OPTIONS]",
            "",
            "Commands for the operator, who has access to the database. Each has --help.",
            "",
            *(f"  {word:<21}{meaning}" for word, (_, meaning) in COMMANDS.items()),
        ]
    )
