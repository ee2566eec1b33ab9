"""Targets of deliveries: folders, and a real S3-compatible store."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from django.conf import LazySettings

from builders.s3_store import KEY_ID, SECRET, Store, a_store
from exports import targets
from exports.targets import DeliveryFailed, target_named, target_names
from primitives.errors import NotFound

MANIFEST = {"rows": 1, "sha256": "0" * 64}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(b"cost\r\n1\r\n")
    return path


@pytest.fixture
def root(tmp_path: Path, settings: LazySettings) -> Path:
    """The folder of the target `finance`."""
    path = tmp_path / "finance"
    path.mkdir()
    settings.DELIVERY_TARGETS = {"finance": str(path)}
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with a_store(tmp_path_factory.mktemp("store")) as store:
        (store.buckets / "finance").mkdir()
        yield store


def to_store(settings: LazySettings, address: str, key: str | None = None) -> None:
    """Make `archive` the target at this address."""
    settings.DELIVERY_TARGETS = {"archive": address}
    settings.DELIVERY_KEYS = {"archive": key or f"{KEY_ID}:{SECRET}"}


def delivered(target: str, file: Path, name: str = "c.csv", manifest: Any = MANIFEST) -> None:
    target_named(target).deliver("ai-company/2026-11", name, file, manifest)


def test_a_folder_gets_the_file_and_then_its_manifest(
    root: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have their names once they are complete, and a repeat replaces them.

    Planted: the manifest first; a file written in place."""
    order: list[str] = []
    renamed = Path.replace

    def noticed(self: Path, target: Path) -> Path:
        order.append(f"{self.name} {target.name}")
        return renamed(self, target)

    monkeypatch.setattr(Path, "replace", noticed)
    delivered("finance", file)
    place = root / "ai-company/2026-11"
    assert order == [
        ".c.csv.part c.csv",
        ".c.csv.manifest.json.part c.csv.manifest.json",
    ]
    file.write_bytes(b"cost\r\n2\r\n")
    delivered("finance", file, manifest={**MANIFEST, "rows": 2})
    assert sorted(each.name for each in place.iterdir()) == ["c.csv", "c.csv.manifest.json"]
    assert (place / "c.csv").read_bytes() == b"cost\r\n2\r\n"
    assert json.loads((place / "c.csv.manifest.json").read_text())["rows"] == 2


def test_a_folder_that_is_not_mounted_is_not_made(root: Path, file: Path) -> None:
    """Planted: the folder of the target made."""
    root.rmdir()
    with pytest.raises(DeliveryFailed, match="Ask the operator to mount it"):
        delivered("finance", file)
    assert not root.exists()


def test_a_link_leads_nothing_out_of_the_folder(root: Path, file: Path, tmp_path: Path) -> None:
    """Planted: links followed."""
    (tmp_path / "elsewhere").mkdir()
    (root / "ai-company").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DeliveryFailed, match="A link in the target finance leads out of it"):
        delivered("finance", file)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_refuses_is_a_sentence(root: Path, file: Path) -> None:
    """A half file is removed. Against: an OSError that ends the task."""
    place = root / "ai-company/2026-11"
    (place / "c.csv" / "in the way").mkdir(parents=True)
    with pytest.raises(DeliveryFailed) as raised:
        delivered("finance", file)
    assert str(raised.value) == "The target finance cannot be written: Is a directory."
    assert [each.name for each in place.iterdir()] == ["c.csv"]


def test_only_the_operators_targets_exist(root: Path, settings: LazySettings) -> None:
    settings.DELIVERY_TARGETS = {**settings.DELIVERY_TARGETS, "archive": "http://127.0.0.1:1/b"}
    assert target_names() == {"archive": "s3", "finance": "folder"}
    for name in ("../finance", str(root), "elsewhere"):
        with pytest.raises(NotFound, match="Known: archive, finance"):
            target_named(name)


def test_a_real_store_gets_the_file_and_its_manifest(
    store: Store, settings: LazySettings, file: Path
) -> None:
    """A file of several parts is there byte for byte, with its hash, and a repeat replaces it."""
    to_store(settings, f"{store.address}/finance/tidegate")
    content = os.urandom(9 << 20)
    file.write_bytes(b"old")
    delivered("archive", file)
    file.write_bytes(content)
    delivered("archive", file)
    client = boto3.client(
        "s3", endpoint_url=store.address, region_name="us-east-1",
        aws_access_key_id=KEY_ID, aws_secret_access_key=SECRET,
    )  # fmt: skip
    start = "tidegate/ai-company/2026-11"
    listed = client.list_objects_v2(Bucket="finance")["Contents"]
    assert [one["Key"] for one in listed] == [f"{start}/c.csv", f"{start}/c.csv.manifest.json"]
    found = client.get_object(Bucket="finance", Key=f"{start}/c.csv")
    assert found["Body"].read() == content
    assert found["Metadata"] == {"sha256": "0" * 64}
    manifest = client.get_object(Bucket="finance", Key=f"{start}/c.csv.manifest.json")
    assert json.loads(manifest["Body"].read()) == MANIFEST
    client.close()


@pytest.mark.parametrize(
    ("bucket", "key", "reason"),
    [
        ("absent", None, "the bucket does not exist"),
        ("finance", f"{KEY_ID}:wrong-secret", "the secret of the key is wrong"),
        ("finance", f"nobody:{SECRET}", "error XAdminUserNotFound"),
    ],
)
def test_a_real_store_that_refuses_is_a_sentence(
    store: Store, settings: LazySettings, file: Path, bucket: str, key: str | None, reason: str
) -> None:
    """The sentence has neither the address nor the secret.

    Planted: the text of the library's error."""
    to_store(settings, f"{store.address}/{bucket}", key)
    with pytest.raises(DeliveryFailed) as raised:
        delivered("archive", file)
    assert str(raised.value) == (
        f"The target archive refused the file: {reason}. Ask the operator."
    )


@pytest.mark.timeout(30, func_only=True)
def test_a_store_that_is_silent_or_away_is_a_sentence(
    settings: LazySettings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits for it beyond the time-outs, and a store without a key is not asked.

    Planted: no time-out for the answer."""
    monkeypatch.setattr(targets, "_READ_TIMEOUT_S", 0.2)
    monkeypatch.setattr(targets, "_REQUEST_TRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/finance"
        to_store(settings, address)
        with pytest.raises(DeliveryFailed, match="The target archive does not answer"):
            delivered("archive", file)
    with pytest.raises(DeliveryFailed, match="The target archive does not answer"):
        delivered("archive", file)
    settings.DELIVERY_KEYS = {}
    with pytest.raises(DeliveryFailed, match="The target archive has no key"):
        delivered("archive", file)
