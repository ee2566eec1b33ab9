import django.contrib.postgres.indexes
import django.db.models.expressions
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0009_pools_have_terms"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="usagesegment",
            index=django.contrib.postgres.indexes.GistIndex(
                django.db.models.expressions.Func("start", "end", function="TSTZRANGE"),
                name="segment_by_time",
            ),
        ),
    ]
