"""A start writes one index less: only the removal of a priority class looks for its jobs alone."""

from django.db import migrations, models
from django.db.models import PROTECT


class Migration(migrations.Migration):
    dependencies = [("jobs", "0026_starts_write_less")]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="priority_class",
            field=models.ForeignKey(
                on_delete=PROTECT,
                related_name="jobs",
                to="quotas.priorityclass",
                db_index=False,
            ),
        ),
    ]
