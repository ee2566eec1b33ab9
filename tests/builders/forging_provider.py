"""An OpenID Connect provider that lies: each answer can be forged by a test."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CLIENT_ID = "tidegate"


class ForgingProvider:
    """Claims and answers; a test changes what it wants to lie about."""

    def __init__(self) -> None:
        self.issuer = ""
        self.claims: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.key: Any = KEY
        self.userinfo: Any = {"sub": "maria"}
        self.discovery: dict[str, Any] = {}
        self.token_answer: bytes | None = None
        self.id_token: str | None = None
        self.redirects_to = ""
        self.calls: list[str] = []

    def answer(self, path: str) -> bytes:
        """The JSON at `path`."""
        if path.endswith("/openid-configuration"):
            document = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }
            return json.dumps(document | self.discovery).encode()
        if path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
            return json.dumps({"keys": [{**public, "kid": "one", "use": "sig"}]}).encode()
        if path == "/token":
            if self.token_answer is not None:
                return self.token_answer
            body = {"access_token": "any", "token_type": "Bearer", "id_token": self.signed()}
            return json.dumps(body).encode()
        return json.dumps(self.userinfo).encode()

    def signed(self) -> str:
        """The ID token."""
        if self.id_token is not None:
            return self.id_token
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "maria",
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            **self.claims,
        }
        given = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(given, self.key, self.algorithm, headers={"kid": "one"})


@contextmanager
def a_forging_provider() -> Iterator[ForgingProvider]:
    """Serve it on a free port."""
    provider = ForgingProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.calls.append(self.path)
            if provider.redirects_to:
                self.send_response(302)
                self.send_header("Location", provider.redirects_to)
                self.end_headers()
                return
            body = provider.answer(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
