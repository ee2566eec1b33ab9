"""A real OpenID Connect provider on this machine, and what a person does in its pages."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx

from embedded.ports import a_free_port

FOLDER = Path(__file__).parents[1] / "identity_provider"
CLIENT_ID = "tidegate"
CLIENT_SECRET = "a-secret-of-tests"
_STEPS_MAX = 12


@dataclass(frozen=True)
class OidcProvider:
    """A running provider."""

    issuer: str

    def set_people(self, people: dict[str, dict[str, Any]]) -> None:
        """Replace the people, by login, with their claims."""
        request = urllib.request.Request(
            f"{self.issuer}/test/people", json.dumps(people).encode(), method="PUT"
        )
        with urllib.request.urlopen(request, timeout=10):
            pass

    def sign_in(self, authorization_url: str, login: str, *, until: str) -> str:
        """Sign in and consent as a browser does. Return the address below `until` it leads to."""
        with httpx.Client(timeout=20, trust_env=False) as browser:
            answer = browser.get(authorization_url)
            for _ in range(_STEPS_MAX):
                if answer.is_redirect:
                    location = urljoin(str(answer.url), answer.headers["location"])
                    if location.startswith(until):
                        return location
                    answer = browser.get(location)
                    continue
                form = re.search(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', answer.text, re.S)
                assert form is not None, answer.text
                hidden = re.findall(r'name="([^"]+)" value="([^"]*)"', form[2])
                typed = {"login": login, "password": "any"} if 'name="login"' in form[2] else {}
                answer = browser.post(
                    urljoin(str(answer.url), unescape(form[1])), data={**dict(hidden), **typed}
                )
        raise AssertionError("the provider never led back")


@contextmanager
def an_oidc_provider(redirect_uri: str) -> Iterator[OidcProvider]:
    """Run the provider of tests/identity_provider for one client."""
    if not (FOLDER / "node_modules").is_dir():
        raise AssertionError("run `make identity-provider` first")
    port = a_free_port()
    process = subprocess.Popen(
        ["node", "server.mjs", str(port), CLIENT_ID, CLIENT_SECRET, redirect_uri],
        cwd=FOLDER,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield OidcProvider(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()
