"""The scripts in deploy/, which are no package."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from embedded.layout import REPO


def deploy_script(name: str) -> ModuleType:
    """deploy/`name`.py, loaded anew."""
    spec = importlib.util.spec_from_file_location(name, REPO / "deploy" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
