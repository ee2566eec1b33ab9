"""What is not decided is told apart from what never can be met."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0011_arrays"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="dependency",
            name="dependency_is_met_when_closed",
        ),
        migrations.AlterField(
            model_name="dependency",
            name="is_met",
            field=models.BooleanField(null=True),
        ),
        migrations.RunSQL(
            sql="UPDATE jobs_dependency SET is_met = NULL WHERE NOT is_met",
            reverse_sql="UPDATE jobs_dependency SET is_met = FALSE WHERE is_met IS NULL",
        ),
        migrations.AddConstraint(
            model_name="dependency",
            constraint=models.CheckConstraint(
                condition=models.Q(("is_met", None), ("closed_at__isnull", False), _connector="OR"),
                name="dependency_is_met_when_closed",
            ),
        ),
    ]
