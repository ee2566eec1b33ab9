from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0009_classes_are_retired"),
        ("tenants", "0003_sessions_end_and_attempts_count"),
    ]

    operations = [
        migrations.AddField(
            model_name="installationpolicy",
            name="costly_loss_s",
            field=models.PositiveIntegerField(default=14400),
        ),
        migrations.AddConstraint(
            model_name="installationpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(("costly_loss_s__gte", 0), ("costly_loss_s__lte", 315360000)),
                name="installation_costly_loss_s_is_in_range",
            ),
        ),
    ]
