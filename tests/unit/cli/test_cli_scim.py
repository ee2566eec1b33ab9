"""`tidegate scim`."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from builders.cli_server import Server, a_server

ID = "01a1fd00-0000-7000-8000-000000000013"
TOKEN_ID = "01a1fd00-0000-7000-8000-000000000014"
BASE = f"organizations/{ID}/scim"
SCIM = {
    "base_url": "https://gpus.example.org/scim/v2",
    "external_id_claim": "sub",
    "adopts_accounts": False,
    "last_contact_at": "2026-11-29T12:00:00Z",
    "active_people": 40,
    "deactivated_people": 2,
    "groups": 7,
    "version": 3,
}
TOKEN = {
    "id": TOKEN_ID,
    "name": "Okta",
    "prefix": "tds_abcdefgh",
    "created_by": "alice@ai-company",
    "created_at": "2026-11-21T12:00:00Z",
    "expires_at": "2027-11-21T12:00:00Z",
    "last_used_at": None,
    "revoked_at": None,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET organizations"] = {"items": [{"id": ID, "slug": "ai-company"}], "next": None}
    server.routes[f"GET {BASE}"] = httpx.Response(200, json=SCIM, headers={"ETag": '"v3"'})
    server.routes[f"PUT {BASE}"] = SCIM
    server.routes[f"GET {BASE}/tokens"] = {"items": [TOKEN], "next": None}
    server.routes[f"POST {BASE}/tokens"] = {**TOKEN, "secret": "tds_secret"}
    server.routes[f"POST scim-tokens/{TOKEN_ID}/replace"] = {**TOKEN, "secret": "tds_new"}
    server.routes[f"DELETE scim-tokens/{TOKEN_ID}"] = httpx.Response(204)
    return server


def test_last_contact_counts_and_tokens_are_shown(server: Server) -> None:
    """Against: a list without the prefixes that `rotate` and `revoke` need."""
    ran = server.run("scim", "show")
    assert ran.exit_code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["Address", "https://gpus.example.org/scim/v2"] in lines
    assert ["Last", "contact", "2026-11-29T12:00:00Z"] in lines
    assert ["People", "40", "active,", "2", "deactivated"] in lines
    assert lines[-1] == ["tds_abcdefgh", "2027-11-21T12:00:00Z", "never", "-", "Okta"]


def test_a_change_names_its_version_and_keeps_the_rest(server: Server) -> None:
    """Against: a change of one setting that resets the other."""
    assert server.run("scim", "set", "--adopt").exit_code == 0
    assert server.requests[-1].headers["If-Match"] == '"v3"'
    assert server.body() == {"external_id_claim": "sub", "adopts_accounts": True}


def test_a_token_is_created_with_a_lifetime_and_its_secret_is_the_output(server: Server) -> None:
    """Against: a token without an expiry, and words around the secret in the output."""
    assert server.run("scim", "create", "Okta").exit_code == 2
    ran = server.run("scim", "create", "Okta", "--days", "365")
    assert (ran.exit_code, ran.out) == (0, "tds_secret\n")
    assert server.body() == {"name": "Okta", "expires_in_days": 365}


def test_a_token_is_rotated_and_revoked_by_its_first_characters(server: Server) -> None:
    """Against: hours that are sent as seconds."""
    ran = server.run("scim", "rotate", "tds_abcdefgh", "--overlap-hours", "24")
    assert (ran.exit_code, ran.out) == (0, "tds_new\n")
    assert server.body() == {"overlap_s": 86_400}
    assert server.run("scim", "revoke", TOKEN_ID).exit_code == 0
    assert server.requests[-1].method == "DELETE"
    ran = server.run("scim", "revoke", "tds_unknown1")
    assert "No tokens for SCIM begin with tds_unknown1." in ran.err
