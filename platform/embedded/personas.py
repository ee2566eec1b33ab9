"""Prints where a ready Tidegate is, and the logins of the demo."""

import json

from embedded.environment import read_env_file
from embedded.layout import Layout
from embedded.ports import HOST

_COLUMNS = ("persona", "login", "password", "token")


def introduction(layout: Layout, *, port: int, with_secrets: bool) -> list[str]:
    """Return the lines to print. A `port` of 0 means that only the servers run.

    `with_secrets` is for a person's terminal. Otherwise the lines name the file with the secrets.
    """
    if port == 0:
        lines = read_env_file(layout.env_file)
        names = ("TIDEGATE_DATABASE_URL", "TIDEGATE_VALKEY_URL")
        return ["", *(f"{name}={lines.get(name, '')}" for name in names), ""]
    rows = read_personas(layout)
    if not with_secrets and rows:
        return [
            *("", f"Tidegate is at http://{HOST}:{port}/", ""),
            f"Logins, passwords and tokens of the demo are in {layout.demo_file}.",
            "",
        ]
    table = [list(_COLUMNS), *([row[column] for column in _COLUMNS] for row in rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(_COLUMNS))]
    logins = ["  ".join(w.ljust(n) for w, n in zip(row, widths, strict=True)) for row in table]
    return [
        "",
        f"Tidegate is at http://{HOST}:{port}/",
        "",
        *((f"  {line.rstrip()}" for line in logins) if rows else ()),
        *((f"The same table is in {layout.demo_file}, for scripts.",) if rows else ()),
        "",
    ]


def read_personas(layout: Layout) -> list[dict[str, str]]:
    """Return persona, login, password and token of each person of the demo, as text.

    The list is empty when no demo is loaded or its file cannot be read.
    """
    try:
        found = json.loads(layout.demo_file.read_text(encoding="utf-8"))["personas"]
        return [{column: str(row[column]) for column in _COLUMNS} for row in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []
