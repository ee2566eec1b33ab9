"""A start writes one index less: nothing looks for all attempts of a cluster, but for those that
hold GPUs (`attempt_holding_gpus`), and for them together with ids or jobs."""

from django.db import migrations, models
from django.db.models import PROTECT


class Migration(migrations.Migration):
    dependencies = [("jobs", "0028_changes_of_quotas_are_noted")]

    operations = [
        migrations.AlterField(
            model_name="attempt",
            name="cluster",
            field=models.ForeignKey(
                on_delete=PROTECT,
                related_name="attempts",
                to="clusters.cluster",
                db_index=False,
            ),
        ),
    ]
