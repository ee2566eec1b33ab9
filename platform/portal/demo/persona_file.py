"""Logins and tokens of the demo's people, for the operator and for scripts.

The database stores only hashes, so this file is the only place with the secrets. It is written
completely or not at all, and only its owner may read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Persona:
    """One person of the demo: `persona` describes the person, `node` is a path."""

    persona: str
    login: str
    password: str
    token: str
    node: str | None


def read_personas(path: Path) -> dict[str, Persona]:
    """Return the people in the file by login, or none when it is missing or not valid."""
    try:
        rows: Any = json.loads(path.read_text(encoding="utf-8"))["personas"]
        found = [Persona(**row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {
        persona.login: persona
        for persona in found
        if all(isinstance(text, str) for text in (persona.login, persona.password, persona.token))
    }


def write_personas(path: Path, *, address: str, personas: Iterable[Persona]) -> None:
    """Replace the file. Raises OSError when it cannot be written."""
    body = {"address": address, "personas": [asdict(persona) for persona in personas]}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
