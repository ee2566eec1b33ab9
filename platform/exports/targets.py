"""Targets of deliveries: folders and S3-compatible stores that the operator named.

People choose a target by its name. They give no path and no address.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

import boto3  # type: ignore[import-untyped]
from boto3.exceptions import S3UploadFailedError  # type: ignore[import-untyped]
from boto3.s3.transfer import TransferConfig  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ClientError,
    HTTPClientError,
)
from botocore.exceptions import (
    ConnectionError as StoreUnreachable,
)
from django.conf import settings

from primitives.errors import NotFound

_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = 30
#: Tries of one request to a store, within one delivery.
_REQUEST_TRIES = 3
_COPIED_BYTES = 1 << 20
#: Sentences for the codes of errors that an operator can mend.
_REASONS: Mapping[str, str] = {
    "NoSuchBucket": "the bucket does not exist",
    "AccessDenied": "the key may not write there",
    "InvalidAccessKeyId": "the store does not know the key",
    "SignatureDoesNotMatch": "the secret of the key is wrong",
}


class DeliveryFailed(Exception):
    """A target took no file. The text is a sentence for finance, without addresses and secrets."""


class Target(Protocol):
    """A place for files. A file of the same name is replaced, so a repeat changes nothing."""

    @property
    def kind(self) -> str:
        """Return "folder" or "s3"."""

    def deliver(self, folder: str, name: str, file: Path, manifest: Mapping[str, Any]) -> None:
        """Store a file and then its manifest, below `folder`. Raises DeliveryFailed."""


def target_names() -> Mapping[str, str]:
    """Return the kind of each target by its name, sorted."""
    return {name: target_named(name).kind for name in sorted(settings.DELIVERY_TARGETS)}


def target_named(name: str) -> Target:
    """Return a target. Raises NotFound."""
    place = settings.DELIVERY_TARGETS.get(name)
    if place is None:
        known = ", ".join(sorted(settings.DELIVERY_TARGETS)) or "none"
        raise NotFound(
            f"There is no target {name!r}. Known: {known}. The operator names targets in "
            "TIDEGATE_DELIVERY_TARGETS."
        )
    if place.startswith("/"):
        return FolderTarget(name, Path(place))
    return StoreTarget(name, urlsplit(place), settings.DELIVERY_KEYS.get(name))


def manifest_name(name: str) -> str:
    """Return the name of a file's manifest."""
    return f"{name}.manifest.json"


def _manifest_text(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class FolderTarget:
    """A folder of this machine, such as a mounted file system."""

    name: str
    root: Path
    kind: str = "folder"

    def deliver(self, folder: str, name: str, file: Path, manifest: Mapping[str, Any]) -> None:
        """Store both. Each gets its name once it is complete on the disk."""
        root = self.root.resolve()
        # The folder is never made: it may be a file system that is not mounted.
        if not root.is_dir():
            raise DeliveryFailed(
                f"The folder of the target {self.name} does not exist. Ask the operator to "
                "mount it."
            )
        try:
            place = (root / folder).resolve()
            if not place.is_relative_to(root):
                raise DeliveryFailed(
                    f"A link in the target {self.name} leads out of it. Ask the operator."
                )
            place.mkdir(parents=True, exist_ok=True)
            with file.open("rb") as source:
                _store(place, name, source.read)
            text = iter([_manifest_text(manifest)])
            _store(place, manifest_name(name), lambda size: next(text, b""))
        except OSError as error:
            raise DeliveryFailed(
                f"The target {self.name} cannot be written: {error.strerror or 'unknown'}."
            ) from error


def _store(place: Path, name: str, read: Any) -> None:
    part = place / f".{name}.part"
    try:
        with part.open("wb") as target:
            while chunk := read(_COPIED_BYTES):
                target.write(chunk)
            target.flush()
            os.fsync(target.fileno())
        part.replace(place / name)
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """A bucket of an S3-compatible store, such as https://s3.example.org/bucket/prefix.

    `key` is the id and the secret of an access key, separated by a colon.
    """

    name: str
    address: SplitResult
    key: str | None
    kind: str = "s3"

    def deliver(self, folder: str, name: str, file: Path, manifest: Mapping[str, Any]) -> None:
        """Store both. A store shows an object once it is complete."""
        bucket, _, prefix = self.address.path.strip("/").partition("/")
        start = f"{prefix}/{folder}" if prefix else folder
        with self._client() as client:
            client.upload_file(
                str(file),
                bucket,
                f"{start}/{name}",
                ExtraArgs={"Metadata": {"sha256": str(manifest["sha256"])}},
                Config=TransferConfig(use_threads=False),
            )
            client.put_object(
                Bucket=bucket,
                Key=f"{start}/{manifest_name(name)}",
                Body=_manifest_text(manifest),
                ContentType="application/json",
            )

    @contextmanager
    def _client(self) -> Iterator[Any]:
        if self.key is None:
            raise DeliveryFailed(
                f"The target {self.name} has no key. Ask the operator to set one in "
                "TIDEGATE_DELIVERY_KEYS."
            )
        key_id, _, secret = self.key.partition(":")
        client = boto3.session.Session().client(
            "s3",
            endpoint_url=f"{self.address.scheme}://{self.address.netloc}",
            region_name=self.address.fragment or "us-east-1",
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
            config=Config(
                signature_version="s3v4",
                connect_timeout=_CONNECT_TIMEOUT_S,
                read_timeout=_READ_TIMEOUT_S,
                retries={"total_max_attempts": _REQUEST_TRIES, "mode": "standard"},
                s3={"addressing_style": "path"},
                # Many compatible stores do not know the newer check sums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        try:
            yield client
        except (StoreUnreachable, HTTPClientError) as error:
            raise DeliveryFailed(
                f"The target {self.name} does not answer. It is tried again; ask the operator "
                "where this goes on."
            ) from error
        except (ClientError, S3UploadFailedError, BotoCoreError) as error:
            raise DeliveryFailed(
                f"The target {self.name} refused the file: {_reason(error)}. Ask the operator."
            ) from error
        finally:
            client.close()


def _reason(error: Exception) -> str:
    """Return the reason of a refusal, also where the upload's own error hides it."""
    cause = error if isinstance(error, ClientError) else error.__context__
    if not isinstance(cause, ClientError):
        return "it gave no reason"
    code = str(cause.response.get("Error", {}).get("Code", ""))
    return _REASONS.get(code, f"error {code[:60]}")
