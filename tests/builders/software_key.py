"""A security key made of software: it answers WebAuthn challenges as a browser passes them on."""

from __future__ import annotations

import json
import secrets
import struct
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import AttestedCredentialData

ORIGIN = "http://localhost"
_PRESENT, _HAS_CREDENTIAL = 0x01, 0x40


class SoftwareKey:
    """A key with one credential. Its counter grows with each answer."""

    def __init__(self) -> None:
        self.id = secrets.token_bytes(16)
        self.counter = 0
        self._private = ec.generate_private_key(ec.SECP256R1())

    @property
    def shown_id(self) -> str:
        """The id as JSON has it."""
        return websafe_encode(self.id)

    def registration(
        self,
        options: dict[str, Any],
        *,
        origin: str = ORIGIN,
        challenge: bytes | None = None,
        host: str = "localhost",
        is_present: bool = True,
    ) -> dict[str, Any]:
        """The answer to a challenge for a new key; forged where values differ from the options."""
        public = ES256.from_cryptography_key(self._private.public_key())
        credential = AttestedCredentialData.create(b"\0" * 16, self.id, public)
        flags = _HAS_CREDENTIAL | (_PRESENT if is_present else 0)
        data = self._data(host, flags) + bytes(credential)
        client = self._client("webauthn.create", options, origin, challenge)
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        return self._credential(
            {
                "clientDataJSON": websafe_encode(client),
                "attestationObject": websafe_encode(attestation),
            }
        )

    def answer(
        self,
        options: dict[str, Any],
        *,
        origin: str = ORIGIN,
        challenge: bytes | None = None,
        host: str = "localhost",
        is_present: bool = True,
    ) -> dict[str, Any]:
        """The answer to a challenge of a sign-in; forged where values differ from the options."""
        self.counter += 1
        data = self._data(host, _PRESENT if is_present else 0)
        client = self._client("webauthn.get", options, origin, challenge)
        signature = self._private.sign(data + sha256(client).digest(), ec.ECDSA(SHA256()))
        return self._credential(
            {
                "clientDataJSON": websafe_encode(client),
                "authenticatorData": websafe_encode(data),
                "signature": websafe_encode(signature),
            }
        )

    def _data(self, host: str, flags: int) -> bytes:
        return sha256(host.encode()).digest() + struct.pack(">BI", flags, self.counter)

    def _client(
        self, kind: str, options: dict[str, Any], origin: str, challenge: bytes | None
    ) -> bytes:
        given = websafe_decode(options["challenge"]) if challenge is None else challenge
        text = {"type": kind, "challenge": websafe_encode(given), "origin": origin}
        return json.dumps(text).encode()

    def _credential(self, response: dict[str, str]) -> dict[str, Any]:
        return {
            "id": self.shown_id,
            "rawId": self.shown_id,
            "type": "public-key",
            "response": response,
            "clientExtensionResults": {},
        }
