"""What is not decided is told apart from what never can be met."""

from django.db import migrations, models

# What ended a job that can never start stays decided; all else that is not met is open or was closed
# for another reason.
KEEP_NEVER = """
UPDATE jobs_dependency d SET is_met = NULL
WHERE NOT d.is_met AND NOT (
    d.closed_at IS NOT NULL
    AND EXISTS (
        SELECT FROM jobs_job j WHERE j.id = d.job_id AND j.end_reason = 'dependency_never_met'
    )
    AND (
        d.condition = 'succeeded' AND EXISTS (
            SELECT FROM jobs_job p
            WHERE (p.id = d.predecessor_id OR p.array_id = d.array_id)
                AND p.state IN ('failed', 'cancelled', 'timed_out')
        )
        OR d.condition = 'failed' AND NOT EXISTS (
            SELECT FROM jobs_job p
            WHERE (p.id = d.predecessor_id OR p.array_id = d.array_id) AND p.state <> 'succeeded'
        )
    )
)
"""


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
            sql=KEEP_NEVER,
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
