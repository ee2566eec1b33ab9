"""What keeps a row from being deleted is said in words."""

import pytest
from django.db import models

from clusters.models import Cluster, Pool
from tenants.models import User
from webapi.removing import in_words, references_to


@pytest.mark.parametrize("model", [Cluster, Pool, User])
def test_whatever_keeps_a_row_has_a_name(model: type[models.Model]) -> None:
    """Planted: a table without `billing.reconciliation`, and one without `quotas.quota`."""
    kept = {in_words(field) for field in references_to(model)}
    assert {"bills", "jobs"} <= kept
