"""What is metered is found by team and by time; every start wrote two more indexes."""

from typing import Any

from django.conf import settings
from django.db import migrations, models
from django.db.models import PROTECT


def _reference(to: str) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        on_delete=PROTECT, related_name="+", to=to, db_constraint=False, db_index=False
    )


class Migration(migrations.Migration):
    dependencies = [("billing", "0008_metered_parties")]

    operations = [
        migrations.AlterField(
            model_name="meteredattempt", name="organization", field=_reference("tenants.node")
        ),
        migrations.AlterField(
            model_name="meteredattempt", name="user", field=_reference(settings.AUTH_USER_MODEL)
        ),
    ]
