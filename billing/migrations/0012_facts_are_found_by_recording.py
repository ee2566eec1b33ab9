"""Facts are found by the time of their recording."""

import django.contrib.postgres.indexes
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0011_charges_of_past_days_are_stored"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="meterevent",
            index=django.contrib.postgres.indexes.BrinIndex(
                fields=["recorded_at"], name="meter_event_by_recording"
            ),
        ),
    ]
