"""PATCH of SCIM: applied to a copy of the resource by `scim2_models`, then checked as a whole."""

from __future__ import annotations

from typing import TypeVar

from scim2_models import Context, PatchOp

from identity.scim.resources import POLICY, Group, User
from primitives.errors import InvalidRequest

OPERATIONS_MAX = 100

Patched = TypeVar("Patched", User, Group)


def patched(resource: Patched, patch: PatchOp[Patched]) -> Patched:
    """Return `resource` after all operations of `patch`.

    Raises InvalidRequest for more than 100 operations, and SCIMException or ValidationError for one
    that does not fit the resource.
    """
    if len(patch.operations or []) > OPERATIONS_MAX:
        raise InvalidRequest(f"A PATCH has at most {OPERATIONS_MAX} operations. Send several.")
    patch.patch(resource, scim_policy=POLICY)
    return type(resource).model_validate(
        resource.model_dump(),
        scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST,
        scim_policy=POLICY,
    )
