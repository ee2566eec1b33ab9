"""A job may report a checkpoint before the portal has observed its start."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_job_has_one_attempt_that_holds_gpus")]

    operations = [
        migrations.RemoveConstraint(
            model_name="attempt", name="attempt_has_checkpoints_since_its_start"
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(checkpoint_at=None)
                | models.Q(started_at=None)
                | models.Q(checkpoint_at__gte=models.F("started_at")),
                name="attempt_has_checkpoints_since_its_start",
            ),
        ),
    ]
