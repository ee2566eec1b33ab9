"""Which tests need the arbiter in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from arbiter import core

IS_COMPILED = Path(core.__file__).suffix != ".py"

#: They put something of their own in the place of a method. Where the arbiter is compiled, its
#: parts call each other and not what stands in a class.
interpreted = pytest.mark.skipif(
    IS_COMPILED, reason="looks into the arbiter, which is compiled here"
)
