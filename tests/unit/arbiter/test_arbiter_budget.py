"""How much one cycle may decide."""

from __future__ import annotations

import pytest

from arbiter.api.policy import Budget


@pytest.mark.parametrize(
    ("mine", "theirs", "starts", "does_as"),
    [
        (5, 5, 5, True),
        (5, 9, 4, True),
        (9, 5, 4, True),
        # Who comes to the end of what it may do looks no further, and lets nothing grow.
        (5, 9, 5, False),
        (9, 5, 5, False),
    ],
)
def test_another_budget_is_no_matter_as_long_as_none_comes_to_an_end(
    mine: int, theirs: int, starts: int, does_as: bool
) -> None:
    assert Budget(mine, 3).does_as(Budget(theirs, 3), starts, 0) is does_as
    assert Budget(3, mine).does_as(Budget(3, theirs), 0, starts) is does_as
