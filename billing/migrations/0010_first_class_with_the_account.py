"""The class that an attempt starts in stands with its account and is no event of its own."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("billing", "0009_attempts_are_found_by_team")]

    operations = [
        migrations.AddField(
            model_name="meteredattempt",
            name="classed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="meteredattempt",
            name="guaranteed_mgpu",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name="meteredattempt",
            constraint=models.CheckConstraint(
                condition=Q(classed_at=None, guaranteed_mgpu=None)
                | Q(classed_at__isnull=False, guaranteed_mgpu__isnull=False),
                name="metered_attempt_has_a_whole_first_class",
            ),
        ),
        # Runs on the way back alone: what accounts know becomes events again, recorded before
        # all others.
        migrations.RunSQL(
            sql=migrations.RunSQL.noop,
            reverse_sql="""
            INSERT INTO billing_meterevent (id, attempt_id, kind, at, guaranteed_mgpu, recorded_at)
            SELECT LEAST(0, (SELECT min(id) FROM billing_meterevent))
                       - row_number() OVER (ORDER BY id),
                   id, 'classed', classed_at, guaranteed_mgpu, classed_at
            FROM billing_meteredattempt WHERE classed_at IS NOT NULL;
            -- Their references are checked before the table changes.
            SET CONSTRAINTS ALL IMMEDIATE;
            SET CONSTRAINTS ALL DEFERRED;
            """,
        ),
    ]
