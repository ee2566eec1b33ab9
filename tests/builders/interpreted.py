"""Which tests need the arbiter or the simulator in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from arbiter import core

IS_COMPILED = Path(core.__file__).suffix != ".py"

#: They put something of their own in the place of a method, or of a class. What is compiled calls
#: its parts themselves and not what stands in a class, and no class can be made of its classes.
interpreted = pytest.mark.skipif(IS_COMPILED, reason="looks into what is compiled here")
