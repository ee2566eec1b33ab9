"""Changes of a pool that are tried and taken back."""

from __future__ import annotations

import pytest

from arbiter.api.snapshot import Quota, TreeNode
from arbiter.cache.transaction import Transaction
from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import pool_quota, tree_of


def a_ledger() -> Ledger:
    """Two teams with guarantees of 4 and 2 of 8 GPUs, of which the first uses 1."""
    tree = tree_of([TreeNode("a", None), TreeNode("b", None)])
    quota = pool_quota(tree, [Quota("a", "p", 4_000), Quota("b", "p", 2_000)])
    ledger = Ledger(tree, quota, 8_000, [0, 0])
    ledger.charge(tree.index["a"], 1_000)
    return ledger


def test_what_is_not_committed_is_taken_back() -> None:
    """Planted: changes stay; amounts do."""
    ledger, amounts = a_ledger(), {"n": 3}
    seen = []
    with Transaction() as attempt:
        attempt.charge(ledger, 0, 2_000)
        attempt.add(amounts, "n", 4)
        attempt.add(amounts, "m", 1)
        seen.append((ledger.base[0], dict(amounts)))
    assert seen == [(3_000, {"n": 7, "m": 1})]
    assert (ledger.base[0], amounts) == (1_000, {"n": 3, "m": 0})


def test_what_is_committed_stays_and_later_changes_do_not() -> None:
    """Planted: a commit takes back; what comes after it stays, too."""
    ledger = a_ledger()
    with Transaction() as attempt:
        attempt.charge(ledger, 1, 1_000)
        attempt.commit()
        attempt.charge(ledger, 1, 500)
    assert ledger.base[1] == 1_000


def test_a_failure_takes_everything_back() -> None:
    """Planted: only what ends well is taken back."""
    ledger = a_ledger()

    def fail() -> None:
        with Transaction() as attempt:
            attempt.charge(ledger, 1, 1_000)
            raise RuntimeError("of somebody else")

    with pytest.raises(RuntimeError, match="of somebody else"):
        fail()
    assert ledger.base[1] == 0
