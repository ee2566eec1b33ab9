"""OpenID Connect as django-allauth speaks it, with the checks that it leaves out.

django-allauth keeps the state and the PKCE verifier in the browser's session, and exchanges the
code. Here come the nonce, the signature of the ID token, and the subject of the userinfo answer.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn
from uuid import UUID

import jwt
import requests
from allauth.core.exceptions import (
    ImmediateHttpResponse,
)
from allauth.socialaccount.adapter import (
    DefaultSocialAccountAdapter,
)
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.base.constants import (
    AuthError,
)
from allauth.socialaccount.providers.oauth2.client import (
    OAuth2Error,
)
from allauth.socialaccount.providers.oauth2.views import (
    OAuth2CallbackView,
)
from allauth.socialaccount.providers.openid_connect.provider import (
    OpenIDConnectProvider,
)
from allauth.socialaccount.providers.openid_connect.views import (
    OpenIDConnectOAuth2Adapter,
)
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from identity.discovery import Discovery, discover
from identity.models import IdentityProvider
from identity.people import record_refusal
from identity.provider_calls import ProviderSession
from identity.providers import unseal_client_secret
from identity.sign_in_refusals import SignInRefusal, refusal_page
from primitives.clock import SystemClock

#: Algorithms with public keys only: a client secret or no key at all proves nothing.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
#: Seconds by which the clocks of provider and portal may differ.
CLOCK_SKEW_S = 60
_KEYS_MAX = 100


class SocialAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Gives django-allauth our providers, our calls and our pages."""

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        """Return the enabled provider with the id `provider`, in a list."""
        try:
            wanted = UUID(str(provider))
        except ValueError:
            return []
        row = IdentityProvider.objects.filter(pk=wanted, is_enabled=True).first()
        if row is None:
            return []
        return [
            SocialApp(
                provider=OpenIDConnectProvider.id,
                provider_id=str(row.pk),
                name=row.name,
                client_id=row.client_id,
                secret=unseal_client_secret(row),
                settings={
                    "server_url": row.issuer,
                    "scope": list(row.scopes),
                    "oauth_pkce_enabled": True,
                },
            )
        ]

    def get_requests_session(self) -> ProviderSession:
        """Return the bounded session of all calls to the provider."""
        return ProviderSession()

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: Mapping[str, Any] | None = None,
    ) -> NoReturn:
        """Lead the browser to the sign-in page, which says what went wrong."""
        if error == AuthError.CANCELLED:
            code = SignInRefusal.CANCELLED
        elif isinstance(exception, requests.RequestException):
            code = SignInRefusal.UNREACHABLE
        elif exception is None and "state_id" in (extra_context or {}):
            code = SignInRefusal.EXPIRED
        else:
            code = SignInRefusal.NOT_PROVED
        if code in {SignInRefusal.UNREACHABLE, SignInRefusal.NOT_PROVED}:
            row = IdentityProvider.objects.select_related("organization").get(
                pk=provider.app.provider_id
            )
            why = str(exception or request.GET.get("error", ""))
            record_refusal(row, code, why=why, now=SystemClock().now())
        raise ImmediateHttpResponse(refusal_page(code))


class OpenIdConnect(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """A sign-in at the provider of an organization."""

    #: What was stored when the browser left for the provider.
    state: Mapping[str, Any]

    def __init__(self, request: HttpRequest, row: IdentityProvider) -> None:
        super().__init__(request, str(row.pk))
        self.row = row
        #: The proved claims, once the code is exchanged.
        self.claims: Mapping[str, Any] = {}

    @cached_property
    def discovery(self) -> Discovery:
        """The provider's addresses. Raises requests.RequestException."""
        return discover(self.row.issuer)

    @property
    def openid_config(self) -> dict[str, Any]:
        """The discovery document in the form that django-allauth reads."""
        return {
            "issuer": self.discovery.issuer,
            "authorization_endpoint": self.discovery.authorization_endpoint,
            "token_endpoint": self.discovery.token_endpoint,
            "token_endpoint_auth_methods_supported": list(self.discovery.token_auth_methods)
            # The default of OpenID Connect Discovery.
            or ["client_secret_basic"],
        }

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        """Return the address to which the provider sends the browser back."""
        return callback_url(request, self.row)

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: Any, **kwargs: Any
    ) -> NoReturn:
        """Prove the claims and end django-allauth's part. Raises OAuth2Error."""
        response = kwargs["response"]
        claims = self._proved(response.get("id_token"))
        if self.discovery.userinfo_endpoint is not None:
            claims = {**self._userinfo(token.token, claims["sub"]), **claims}
        self.claims = claims
        raise ImmediateHttpResponse(HttpResponse())

    def _proved(self, id_token: object) -> dict[str, Any]:
        """Return the claims of an ID token with a valid signature, audience, time and nonce."""
        if not isinstance(id_token, str):
            raise OAuth2Error("the provider sent no ID token")
        try:
            claims = jwt.decode(
                id_token,
                key=self._key_of(id_token),
                algorithms=list(ALGORITHMS),
                audience=self.row.client_id,
                issuer=self.row.issuer,
                leeway=CLOCK_SKEW_S,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise OAuth2Error("the ID token is not valid") from error
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode(), str(self.state.get("nonce", secrets.token_hex())).encode()
        ):
            raise OAuth2Error("the ID token was made for another sign-in")
        if claims.get("azp", self.row.client_id) != self.row.client_id:
            raise OAuth2Error("the ID token was made for another client")
        return dict(claims)

    def _key_of(self, id_token: str) -> jwt.PyJWK:
        with ProviderSession() as session:
            response = session.get(self.discovery.jwks_uri)
        response.raise_for_status()
        document = response.json()
        keys = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(keys, list) or len(keys) > _KEYS_MAX:
            raise OAuth2Error("the provider has no list of keys")
        header = jwt.get_unverified_header(id_token)
        if header.get("alg") not in ALGORITHMS:
            raise OAuth2Error("the ID token has no signature of a key pair")
        usable = [key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig"]
        named = [key for key in usable if key.get("kid") == header.get("kid")]
        if len(named) != 1:
            raise OAuth2Error("no key of the provider made the ID token")
        key = jwt.PyJWK(named[0], algorithm=None if "alg" in named[0] else header.get("alg"))
        if key.algorithm_name != header.get("alg"):
            raise OAuth2Error("the ID token has an algorithm that its key does not have")
        return key

    def _userinfo(self, access_token: str, subject: str) -> dict[str, Any]:
        assert self.discovery.userinfo_endpoint is not None
        with ProviderSession() as session:
            response = session.get(
                self.discovery.userinfo_endpoint,
                headers={"Authorization": f"Bearer {access_token}"},
            )
        response.raise_for_status()
        claims = response.json()
        if not isinstance(claims, dict) or claims.get("sub") != subject:
            raise OAuth2Error("the userinfo answer is about another person")
        return claims


class _Callback(OAuth2CallbackView):  # type: ignore[misc]
    """Hands the stored state to the adapter, which checks the nonce in it."""

    adapter: OpenIdConnect

    def _get_state(self, request: HttpRequest, provider: Any) -> Any:
        state, response = super()._get_state(request, provider)
        self.adapter.state = state or {}
        return state, response


def authorization_url(request: HttpRequest, row: IdentityProvider, *, next_path: str) -> str:
    """Store state, nonce and PKCE verifier in the session, and return the provider's address.

    Raises requests.RequestException when the provider does not answer.
    """
    adapter = OpenIdConnect(request, row)
    provider = OpenIDConnectProvider(request, app=_app_of(request, row))
    provider.get_oauth2_adapter = lambda request: adapter
    nonce = secrets.token_urlsafe(24)
    response = provider.redirect(
        request, "login", next_url=next_path, auth_params={"nonce": nonce}, nonce=nonce
    )
    assert isinstance(response, HttpResponseRedirect)
    return str(response.url)


def proved_claims(
    request: HttpRequest, row: IdentityProvider
) -> tuple[Mapping[str, Any], str] | HttpResponse:
    """Return the person's claims and the page to show, or the answer that refuses the sign-in."""
    adapter = OpenIdConnect(request, row)
    try:
        response = _Callback.adapter_view(adapter)(request)
    except (KeyError, TypeError, ValueError) as error:
        # An answer of the provider that has no expected form.
        why = f"unexpected answer: {type(error).__name__}"
        record_refusal(row, SignInRefusal.NOT_PROVED, why=why, now=SystemClock().now())
        return refusal_page(SignInRefusal.NOT_PROVED)
    if not adapter.claims:
        assert isinstance(response, HttpResponse)
        return response
    return adapter.claims, str(adapter.state.get("next") or "/")


def callback_url(request: HttpRequest, row: IdentityProvider) -> str:
    """Return the address to which the provider sends the browser back: its "redirect URI"."""
    path = f"/api/v1/session/callback/{row.organization.slug}"
    return settings.PUBLIC_URL + path if settings.PUBLIC_URL else request.build_absolute_uri(path)


def _app_of(request: HttpRequest, row: IdentityProvider) -> SocialApp:
    return SocialAdapter(request).get_app(request, provider=str(row.pk))
