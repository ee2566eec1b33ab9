"""Which tests need the arbiter or the simulator in Python."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from arbiter import core

IS_COMPILED = Path(core.__file__).suffix != ".py"

#: They put something of their own in the place of a method, a constant or a class. What is compiled
#: calls its parts themselves and not what stands in a class or module, and no class can be made of
#: its classes.
interpreted = pytest.mark.skipif(IS_COMPILED, reason="looks into what is compiled here")


def is_compiled(target: object) -> bool:
    """Whether `target`, which something is to be put into, is a class or a module in machine code;
    or of which a module is, where it is named as `monkeypatch` takes it."""
    if isinstance(target, str):
        names = [target.rpartition(".")[0], target.rpartition(".")[0].rpartition(".")[0]]
    else:
        names = [getattr(target, "__module__", ""), getattr(target, "__name__", "")]
    return any(
        Path(_file_of(name)).suffix not in ("", ".py")
        for name in names
        if name.startswith(("arbiter.", "simulator."))
    )


def _file_of(name: str) -> str:
    try:
        return import_module(name).__file__ or ""
    except ImportError:
        return ""
