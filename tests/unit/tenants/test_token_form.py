"""The form of an access token: no database is asked about one that is not ours."""

import re
import zlib

import pytest

from tenants.roles import Scope
from tenants.tokens import (
    TOKEN_PATTERN,
    checksum_of,
    digest_of,
    is_well_formed,
    new_secret,
    permissions_of,
)

ZEROS = "tdg_" + "0" * 30


def test_checksum_is_crc32_in_base_62() -> None:
    assert zlib.crc32(ZEROS.encode()) == 2010438785
    assert checksum_of(ZEROS) == "2C3ay1"


def test_new_secrets_have_the_form_and_differ() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    for secret in secrets:
        assert len(secret) == 40
        assert re.fullmatch(TOKEN_PATTERN, secret)
        assert is_well_formed(secret)


@pytest.mark.parametrize("position", range(40))
def test_one_wrong_character_anywhere_is_noticed(position: int) -> None:
    secret = ZEROS + checksum_of(ZEROS)
    wrong = secret[:position] + ("x" if secret[position] != "x" else "y") + secret[position + 1 :]
    assert not is_well_formed(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tdg_",
        ZEROS,
        ZEROS + checksum_of(ZEROS) + "\n",
        " " + ZEROS + checksum_of(ZEROS),
        (ZEROS + checksum_of(ZEROS)).replace("0", "０"),
        "TDG_" + "0" * 36,
        "tdg_" + "0" * 10_000,
    ],
)
def test_other_texts_are_no_tokens(text: str) -> None:
    assert not is_well_formed(text)


def test_digest_is_sha256() -> None:
    assert digest_of("abc").hex() == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_no_scope_permits_nothing_and_admin_permits_all() -> None:
    assert permissions_of([]) == frozenset()
    assert all(permissions_of([scope]) <= permissions_of([Scope.ADMIN]) for scope in Scope)
    assert not permissions_of([Scope.QUOTAS]) <= permissions_of([Scope.READ])
