"""Settings from the environment: what is wrong is said by the variable's name, with what to do."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest

SETTINGS = Path(__file__).resolve().parents[3] / "platform/portal/settings.py"
NEEDED = {
    "TIDEGATE_RUN_AS": "app",
    "TIDEGATE_SECRET_KEY": "x" * 32,
    "TIDEGATE_DATABASE_URL": "postgresql://app:p%40ss@db.example.org/tidegate",
    "TIDEGATE_VALKEY_URL": "redis://127.0.0.1:1/0",
}


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of settings. No variable of the test run counts."""
    for name in [each for each in os.environ if each.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    path = tmp_path / "env"
    path.write_text("# a comment = nothing\n\n")
    monkeypatch.setenv("TIDEGATE_ENV_FILE", str(path))
    # What the settings add to the environment goes with the test.
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.update(NEEDED)
    return path


def loaded() -> dict[str, Any]:
    """The settings as a process that starts now has them."""
    return runpy.run_path(str(SETTINGS))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "TIDEGATE_SECRET_KEY",
            None,
            "TIDEGATE_SECRET_KEY is not set. Run `make up`, which writes it, or set it in the "
            "environment.",
        ),
        (
            "TIDEGATE_SECRET_KEY_FALLBACKS",
            f"{'y' * 32},short",
            "TIDEGATE_SECRET_KEY, and each of TIDEGATE_SECRET_KEY_FALLBACKS, must have at least "
            "32 characters.",
        ),
        ("TIDEGATE_DEBUG", "yes", "TIDEGATE_DEBUG must be true or false, not 'yes'."),
        *(
            (
                "TIDEGATE_STALE_AFTER_S",
                value,
                f"TIDEGATE_STALE_AFTER_S must be a whole number from 2 to 3600, not {value!r}.",
            )
            for value in ("1", "3601", "1.5", "+5", "1_0", "", "²")
        ),
        ("TIDEGATE_RUN_AS", "root", "TIDEGATE_RUN_AS must be app or owner, not 'root'."),
        *(
            (
                "TIDEGATE_DATABASE_URL",
                value,
                "TIDEGATE_DATABASE_URL must look like postgresql://user:password@host:5432/database.",
            )
            for value in ("mysql://a/b", "postgresql:///b", "postgresql://a:5432", "")
        ),
        (
            "TIDEGATE_TRUSTED_PROXIES",
            "10.0.0.1,10.0.0.300",
            "TIDEGATE_TRUSTED_PROXIES must hold addresses or networks like 10.0.0.0/24, not "
            "'10.0.0.300'.",
        ),
        (
            "TIDEGATE_LOCAL_UIDS",
            "2000-1999",
            "TIDEGATE_LOCAL_UIDS must be like 1880000000-1880065535, from 1000 to 2147483647.",
        ),
        (
            "TIDEGATE_SLURM_ORIGINS",
            "http://head:6820, head",
            "TIDEGATE_SLURM_ORIGINS must hold entries like http://slurm-head:6820, not 'head'.",
        ),
        *(
            (
                "TIDEGATE_DELIVERY_TARGETS",
                f"finance=/srv/finance,{entry}",
                "TIDEGATE_DELIVERY_TARGETS must hold entries like finance=/srv/finance or "
                "archive=https://s3.example.org/bucket/prefix#eu-central-1; number 2 is not.",
            )
            for entry in ("/srv", "a=srv", "A=/srv", "a=https://host", "a=https://u:p@host/b")
        ),
        *(
            (
                "TIDEGATE_DELIVERY_KEYS",
                entry,
                "TIDEGATE_DELIVERY_KEYS must hold entries like archive=KEY_ID:SECRET; number 1 "
                "is not.",
            )
            for entry in ("archive=secret", "secret", "archive=:secret")
        ),
        (
            "TIDEGATE_DELIVERY_KEYS",
            "archive=id:secret",
            "TIDEGATE_DELIVERY_KEYS has keys of archive, which is none of "
            "TIDEGATE_DELIVERY_TARGETS.",
        ),
        (
            "TIDEGATE_METRICS_TOKEN",
            "m" * 31,
            "TIDEGATE_METRICS_TOKEN must have at least 32 characters, or none.",
        ),
        (
            "TIDEGATE_PUBLIC_URL",
            "ftp://x",
            "TIDEGATE_PUBLIC_URL must look like https://host, not 'ftp://x'.",
        ),
        (
            "TIDEGATE_MAIL_URL",
            "smtps://mail.example.org",
            "TIDEGATE_MAIL_URL needs TIDEGATE_PUBLIC_URL, which mailed links begin with.",
        ),
    ],
)
@pytest.mark.usefixtures("file")
def test_a_wrong_setting_stops_the_start_with_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str | None, sentence: str
) -> None:
    """Planted: `int()` alone reads numbers, which lets "+5" and "1_0" through."""
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as refused:
        loaded()
    assert str(refused.value) == sentence


@pytest.mark.usefixtures("file")
def test_targets_of_deliveries_and_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret may have any character but a comma. Planted: a secret cut at its "=" or ":"."""
    monkeypatch.setenv(
        "TIDEGATE_DELIVERY_TARGETS", "finance=/srv/a b, archive=https://h:9000/bucket/x#eu-1"
    )
    monkeypatch.setenv("TIDEGATE_DELIVERY_KEYS", "archive=ID:a/b+c=d:e")
    found = loaded()
    assert found["DELIVERY_TARGETS"] == {
        "finance": "/srv/a b",
        "archive": "https://h:9000/bucket/x#eu-1",
    }
    assert found["DELIVERY_KEYS"] == {"archive": "ID:a/b+c=d:e"}


def test_the_environment_wins_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the file's lines replace variables."""
    file.write_text("TIDEGATE_STALE_AFTER_S = 20 \n#TIDEGATE_DEBUG=true\nTIDEGATE_CYCLES_KEPT=7\n")
    monkeypatch.setenv("TIDEGATE_CYCLES_KEPT", "8")
    found = loaded()
    assert (found["STALE_AFTER_S"], found["DEBUG"], found["CYCLES_KEPT"]) == (20, False, 8)


@pytest.mark.usefixtures("file")
def test_the_parts_of_an_address_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the password as it stands in the address."""
    monkeypatch.setenv("TIDEGATE_LOCAL_ROOTS", " /srv/a ,,/srv/b/")
    found = loaded()
    database = found["DATABASES"]["default"]
    assert [database[part] for part in ("HOST", "PORT", "NAME", "USER", "PASSWORD")] == [
        "db.example.org", 5432, "tidegate", "app", "p@ss",
    ]  # fmt: skip
    assert found["LOCAL_ROOTS"] == {"/srv/a", "/srv/b/"}
