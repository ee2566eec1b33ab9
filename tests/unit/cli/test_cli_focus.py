"""`tidegate focus check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli_server import Server, a_server
from focus.columns import DATASETS

HEADER = (
    "BillingPeriodCreated,BillingPeriodEnd,BillingPeriodLastUpdated,BillingPeriodStart,"
    "BillingPeriodStatus,InvoiceIssuerName\r\n"
)
ROW = (
    "2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,2026-11-21T00:00:00Z,2026-11-01T00:00:00Z,"
    "Open,Tidegate\r\n"
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def a_file(folder: Path, text: str) -> str:
    path = folder / "periods.csv"
    path.write_text(text, newline="")
    return str(path)


def test_a_good_file_ends_with_0_and_asks_no_server(server: Server, tmp_path: Path) -> None:
    ran = server.run("focus", "check", a_file(tmp_path, HEADER + ROW))
    assert (ran.exit_code, ran.out) == (0, "")
    assert ran.err == "BillingPeriod of FOCUS 1.4: 21 rules kept, 0 broken.\n"
    assert server.sent == []


def test_a_broken_rule_ends_with_1_and_names_the_row(server: Server, tmp_path: Path) -> None:
    file = a_file(tmp_path, HEADER + ROW + ROW.replace("Open", "Grace").replace("12-01", "12-02"))
    ran = server.run("focus", "check", file)
    assert ran.exit_code == 1
    assert ran.out.splitlines() == [
        "VAL-ALLOWED  Values are among the allowed ones: 1 times",
        "    row 2: BillingPeriodStatus is 'Grace'",
        "SET-UNIQUE  Ids occur once: 1 times",
        "    row 2: 2026-11-01T00:00:00Z Tidegate",
    ]
    shown = json.loads(server.run("focus", "check", file, "-o", "json").out)
    assert [fault["rule"] for fault in shown] == ["VAL-ALLOWED", "SET-UNIQUE"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\r\n1,2\r\n", "has no column of a FOCUS dataset. Choose one with --dataset."),
        ("", "is empty. A FOCUS file begins with its columns."),
        ('a,"b\r\n', "is no CSV file in UTF-8"),
    ],
)
def test_what_is_no_focus_file(server: Server, tmp_path: Path, text: str, says: str) -> None:
    ran = server.run("focus", "check", a_file(tmp_path, text))
    assert ran.exit_code == 2
    assert says in ran.err


def test_other_mistakes(server: Server, tmp_path: Path) -> None:
    """A file that is absent, and a dataset that is unknown."""
    absent = server.run("focus", "check", str(tmp_path / "absent.csv"))
    assert "cannot be read: No such file or directory." in absent.err
    wrong = server.run("focus", "check", a_file(tmp_path, HEADER), "--dataset", "Costs")
    assert wrong.err.startswith("Error: --dataset must be one of CostAndUsage, BillingPeriod")


def test_each_dataset_is_told_by_its_columns(server: Server, tmp_path: Path) -> None:
    """A file without rows keeps all rules of its dataset."""
    counts = {}
    for name, dataset in DATASETS.items():
        ran = server.run("focus", "check", a_file(tmp_path, ",".join(sorted(dataset.mandatory))))
        assert ran.err.startswith(f"{name} of FOCUS 1.4: "), ran.err
        counts[name] = int(ran.err.split(": ")[1].split()[0])
    assert counts == {
        "CostAndUsage": 50, "BillingPeriod": 21, "ContractCommitment": 31, "InvoiceDetail": 22,
    }  # fmt: skip
