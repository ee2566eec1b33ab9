"""Disputes are about an attempt, or about a team's charge for a pool in a month."""

import django.db.models.deletion
from django.db import migrations, models

_DECIDED_ONCE = """
DROP TRIGGER dispute_is_decided_once ON adjustments_dispute;
CREATE TRIGGER dispute_is_decided_once
    BEFORE UPDATE ON adjustments_dispute
    FOR EACH ROW WHEN (
        OLD.status <> 'open'
        OR (OLD.id, OLD.organization_id, OLD.team_id, OLD.attempt_id, OLD.pool_id, OLD.month,
            OLD.charged_nano, OLD.currency, OLD.reason, OLD.asked_by_id, OLD.asked_at)
           IS DISTINCT FROM
           (NEW.id, NEW.organization_id, NEW.team_id, NEW.attempt_id, NEW.pool_id, NEW.month,
            NEW.charged_nano, NEW.currency, NEW.reason, NEW.asked_by_id, NEW.asked_at)
    ) EXECUTE FUNCTION decisions_refuse_changes();
"""

_OF_ATTEMPTS = """
DROP TRIGGER dispute_is_decided_once ON adjustments_dispute;
CREATE TRIGGER dispute_is_decided_once
    BEFORE UPDATE ON adjustments_dispute
    FOR EACH ROW WHEN (
        OLD.status <> 'open'
        OR (OLD.id, OLD.organization_id, OLD.team_id, OLD.attempt_id, OLD.charged_nano,
            OLD.currency, OLD.reason, OLD.asked_by_id, OLD.asked_at)
           IS DISTINCT FROM
           (NEW.id, NEW.organization_id, NEW.team_id, NEW.attempt_id, NEW.charged_nano,
            NEW.currency, NEW.reason, NEW.asked_by_id, NEW.asked_at)
    ) EXECUTE FUNCTION decisions_refuse_changes();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("adjustments", "0002_people_do_not_raise_their_own_threshold"),
        ("billing", "0009_pools_have_terms"),
        ("clusters", "0003_jobs_may_reach_the_portal"),
    ]

    operations = [
        migrations.AlterField(
            model_name="dispute",
            name="attempt",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="billing.meteredattempt",
            ),
        ),
        migrations.AddField(
            model_name="dispute",
            name="pool",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="clusters.pool",
            ),
        ),
        migrations.AddField(model_name="dispute", name="month", field=models.DateField(null=True)),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status__in", ("open", "accepted"))),
                fields=("team", "pool", "month"),
                name="row_is_disputed_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("attempt__isnull", False), ("month", None), ("pool", None)),
                    models.Q(("attempt", None), ("month__isnull", False), ("pool__isnull", False)),
                    _connector="OR",
                ),
                name="dispute_is_about_an_attempt_or_a_row",
            ),
        ),
        migrations.RunSQL(_DECIDED_ONCE, _OF_ATTEMPTS),
    ]
