"""Terms of pools: mode, multipliers, minimum and increment, dated like prices."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

# The function of the triggers on prices. It knows only the columns that both tables have.
_RULES = """
CREATE TRIGGER pool_terms_are_kept
    BEFORE DELETE OR UPDATE ON billing_poolterms
    FOR EACH ROW
    EXECUTE FUNCTION keep_rate_lines();
"""
_NO_RULES = "DROP TRIGGER pool_terms_are_kept ON billing_poolterms;"


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0008_attempts_have_a_job_type"),
        ("clusters", "0003_jobs_may_reach_the_portal"),
    ]

    operations = [
        migrations.CreateModel(
            name="PoolTerms",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField(null=True)),
                ("added_at", models.DateTimeField(null=True)),
                ("added_by", models.CharField(blank=True, max_length=200)),
                (
                    "mode",
                    models.CharField(
                        choices=[
                            ("pay_per_use", "Pay Per Use"),
                            ("commitment", "Commitment"),
                            ("showback", "Showback"),
                        ],
                        default="pay_per_use",
                        max_length=11,
                    ),
                ),
                ("guaranteed_ppm", models.PositiveIntegerField(default=1000000)),
                ("borrowed_ppm", models.PositiveIntegerField(default=1000000)),
                ("unpaid_ppm", models.PositiveIntegerField(default=1000000)),
                ("minimum_s", models.PositiveIntegerField(default=0)),
                ("increment_s", models.PositiveIntegerField(default=1)),
                (
                    "card",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="terms",
                        to="billing.ratecard",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("mode__in", ["pay_per_use", "commitment", "showback"])),
                        name="terms_mode_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("borrowed_ppm__lte", 100000000),
                            ("guaranteed_ppm__lte", 100000000),
                            ("unpaid_ppm__lte", 100000000),
                        ),
                        name="terms_multipliers_are_sane",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("increment_s__gte", 1),
                            ("increment_s__lte", 86400),
                            ("minimum_s__lte", 86400),
                        ),
                        name="terms_bill_at_most_a_day_more",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("end", None), ("end__gt", models.F("start")), _connector="OR"
                        ),
                        name="terms_have_a_length",
                    ),
                    django.contrib.postgres.constraints.ExclusionConstraint(
                        expressions=[
                            ("card", "="),
                            ("pool", "="),
                            (
                                models.Func(
                                    "start",
                                    "end",
                                    django.contrib.postgres.fields.ranges.RangeBoundary(),
                                    function="TSTZRANGE",
                                ),
                                "&&",
                            ),
                        ],
                        name="pool_has_one_mode_at_a_time",
                    ),
                ],
            },
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
