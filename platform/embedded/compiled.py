"""The arbiter in machine code, which `make compiled` makes."""

import importlib.util

from embedded.layout import REPO


def ahead_of_path() -> dict[str, str]:
    """What a process has in its environment that decides with the compiled arbiter: nothing where
    there is none, or one that was made of other sources than these."""
    spec = importlib.util.spec_from_file_location("bootstrap", REPO / "deploy" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    bootstrap = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bootstrap)
    return {"PYTHONPATH": str(bootstrap.COMPILED)} if bootstrap.is_compiled() else {}
