"""Nothing is served to nobody; what a caller may do is decided below the views."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request


class IsSignedIn(BasePermission):
    """A session or a token came with the request."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """True when an authenticator recognised the caller."""
        return bool(request.user is not None and request.user.is_authenticated)
