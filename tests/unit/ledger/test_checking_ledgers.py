"""The daily check of all ledgers."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from builders.ledger_builders import CREDITS, a_move, recorded, two_accounts
from builders.portal_builders import NOW
from ledger import checking
from ledger.models import Seal
from ledger.proof import Fault

pytestmark = pytest.mark.django_db


def test_a_ledger_without_faults_is_sealed_once_a_check() -> None:
    recorded(a_move(*two_accounts()))
    assert checking.check_and_seal(now=NOW) == 0
    assert checking.check_and_seal(now=NOW) == 0
    assert list(Seal.objects.values_list("ledger", "number")) == [(CREDITS, 1), (CREDITS, 2)]


def test_a_ledger_with_a_fault_is_logged_and_not_sealed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Against: a seal over what is wrong."""
    recorded(a_move(*two_accounts()))
    monkeypatch.setattr(checking, "find_faults", lambda name: [Fault("sum", f"{name} is wrong.")])
    assert checking.check_and_seal(now=NOW) == 1
    assert [record.message for record in caplog.records] == [f"ledger: {CREDITS} is wrong."]
    assert not Seal.objects.exists()
    with pytest.raises(CommandError, match="A ledger has faults"):
        call_command("check_ledgers", stdout=StringIO())


def test_the_command_names_each_ledger() -> None:
    out = StringIO()
    call_command("check_ledgers", stdout=out)
    recorded(a_move(*two_accounts()))
    call_command("check_ledgers", stdout=out)
    assert out.getvalue() == f"No ledger yet.\n{CREDITS}: proved\n"
