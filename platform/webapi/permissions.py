"""Only signed-in callers are served. The layers below the views check what a caller may do."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request


class IsSignedIn(BasePermission):
    """Allows requests with a valid session or token."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether an authenticator recognised the caller."""
        return bool(request.user is not None and request.user.is_authenticated)
