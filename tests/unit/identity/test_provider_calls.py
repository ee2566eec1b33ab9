"""Calls to identity providers that never finish their answers."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from builders.hook_server import a_dripping_server
from identity import provider_calls
from identity.provider_calls import ProviderSession


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_provider_that_drips_is_left_in_time(
    settings: Any, monkeypatch: pytest.MonkeyPatch, greeting: bytes
) -> None:
    """The bytes are a header, or a body. Against: the deadline begins with the body."""
    monkeypatch.setattr(provider_calls, "ANSWER_TIMEOUT_S", 0.3)
    with a_dripping_server(greeting) as port, ProviderSession() as session:
        settings.IDENTITY_ORIGINS = [f"http://127.0.0.1:{port}"]
        with pytest.raises(requests.Timeout, match="does not finish its answer"):
            session.get(f"http://127.0.0.1:{port}/")
