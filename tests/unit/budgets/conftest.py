"""The company of all tests of budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from builders.portal_builders import Company

# Models are imported in the fixture: this file is read before Django's settings are.


@pytest.fixture
def company() -> Company:
    from builders.portal_builders import a_company

    return a_company()
