"""Refused sign-ins: the browser is at the portal again, and the sign-in page says why."""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import urlencode

from django.http import HttpResponseRedirect


class SignInRefusal(StrEnum):
    """A reason for a refused sign-in. The sign-in page has a sentence for each."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNREACHABLE = "unreachable"
    #: The answer of the provider does not prove who the person is.
    NOT_PROVED = "not_proved"
    NO_ACCOUNT = "no_account"
    DEACTIVATED = "deactivated"
    SWITCHED_OFF = "switched_off"


def refusal_page(code: SignInRefusal) -> HttpResponseRedirect:
    """Return the way to the sign-in page with the reason."""
    return HttpResponseRedirect(f"/login?{urlencode({'refused': code.value})}")
