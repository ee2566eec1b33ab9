"""Meter events, usage segments, rates, and reconciliation with the clusters' accounts."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
-- A metered attempt's organization, team, user and pool are checked once per combination.
CREATE FUNCTION know_metered_parties() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO billing_meteredparty
        (organization_id, team_id, user_id, pool_id, cluster_id)
    SELECT DISTINCT a.organization_id, a.team_id, a.user_id, a.pool_id, a.cluster_id
    FROM added a
    WHERE NOT EXISTS (
        SELECT FROM billing_meteredparty p
        WHERE p.user_id = a.user_id AND p.team_id = a.team_id
            AND p.pool_id = a.pool_id AND p.cluster_id = a.cluster_id
            AND p.organization_id = a.organization_id
    )
    ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER metered_parties_are_known
    AFTER INSERT ON billing_meteredattempt
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT
    EXECUTE FUNCTION know_metered_parties();

CREATE TRIGGER metered_attempt_is_append_only
    BEFORE DELETE OR UPDATE ON billing_meteredattempt
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();

CREATE TRIGGER metered_party_is_append_only
    BEFORE DELETE OR UPDATE ON billing_meteredparty
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();

CREATE TRIGGER meter_event_is_append_only
    BEFORE DELETE OR UPDATE ON billing_meterevent
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();
"""

_NO_RULES = """
DROP TRIGGER meter_event_is_append_only ON billing_meterevent;
DROP TRIGGER metered_party_is_append_only ON billing_meteredparty;
DROP TRIGGER metered_attempt_is_append_only ON billing_meteredattempt;
DROP TRIGGER metered_parties_are_known ON billing_meteredattempt;
DROP FUNCTION know_metered_parties();
"""


class Migration(migrations.Migration):
    initial = True

    # An installation of the last unreleased version has all of this.
    replaces = [
        ("billing", "0001_initial"),
        ("billing", "0002_meter_is_append_only"),
        ("billing", "0003_meter_keeps_anomalies_aside"),
        ("billing", "0004_days_are_reconciled"),
        ("billing", "0005_held_is_told"),
        ("billing", "0006_decayed_use"),
        ("billing", "0007_late_use"),
        ("billing", "0008_metered_parties"),
        ("billing", "0009_attempts_are_found_by_team"),
        ("billing", "0010_first_class_with_the_account"),
        ("billing", "0011_a_start_can_be_taken_back"),
        ("billing", "0012_acknowledged_days"),
    ]

    dependencies = [
        ("clusters", "0001_schema"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("audit", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="DecayedUntil",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="MeteredAttempt",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("job_id", models.UUIDField()),
                ("job_name", models.CharField(max_length=200)),
                ("number", models.IntegerField()),
                ("priority_class", models.CharField(max_length=63)),
                ("multiplier_ppm", models.PositiveIntegerField(default=1000000)),
                ("mgpu", models.BigIntegerField()),
                ("classed_at", models.DateTimeField(null=True)),
                ("guaranteed_mgpu", models.BigIntegerField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MeterAnomaly",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("started", "Started"),
                            ("ended", "Ended"),
                            ("lost", "Lost"),
                            ("classed", "Classed"),
                            ("sized", "Sized"),
                            ("anew", "Anew"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "reason",
                    models.CharField(
                        choices=[
                            ("conflict", "Conflict"),
                            ("clock_ahead", "Clock Ahead"),
                            ("ends_before_start", "Ends Before Start"),
                        ],
                        max_length=17,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("recorded_at", models.DateTimeField()),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="anomalies",
                        to="billing.meteredattempt",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LateUse",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                ("mgpu", models.BigIntegerField()),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="billing.meteredattempt",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MeteredParty",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
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
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MeterEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("started", "Started"),
                            ("ended", "Ended"),
                            ("lost", "Lost"),
                            ("classed", "Classed"),
                            ("sized", "Sized"),
                            ("anew", "Anew"),
                        ],
                        max_length=8,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("guaranteed_mgpu", models.BigIntegerField(null=True)),
                ("mgpu", models.BigIntegerField(null=True)),
                ("recorded_at", models.DateTimeField()),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="billing.meteredattempt",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RateCard",
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
                ("currency", models.CharField(max_length=3)),
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rate_card",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RateLine",
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
                (
                    "usage_class",
                    models.CharField(
                        choices=[("guaranteed", "Guaranteed"), ("borrowed", "Borrowed")],
                        max_length=10,
                    ),
                ),
                ("price_nano", models.BigIntegerField()),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField(null=True)),
                (
                    "card",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
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
        ),
        migrations.CreateModel(
            name="Reconciliation",
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
                ("day", models.DateField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("green", "Green"),
                            ("red", "Red"),
                            ("pending", "Pending"),
                            ("unavailable", "Unavailable"),
                        ],
                        max_length=11,
                    ),
                ),
                ("as_of", models.DateTimeField(null=True)),
                ("until", models.DateTimeField(null=True)),
                ("message", models.TextField(blank=True)),
                ("request_id", models.UUIDField(null=True, unique=True)),
                ("requested_at", models.DateTimeField(null=True)),
                ("tried_at", models.DateTimeField(null=True)),
                ("next_at", models.DateTimeField(null=True)),
                ("acknowledged_at", models.DateTimeField(null=True)),
                ("acknowledged_by", models.CharField(blank=True, max_length=200)),
                ("acknowledged_reason", models.CharField(blank=True, max_length=500)),
                ("acknowledged_digest", models.CharField(blank=True, max_length=64)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.cluster",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ReconciledAccount",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("account", models.CharField(max_length=255)),
                ("pool", models.CharField(max_length=63)),
                ("is_green", models.BooleanField()),
                ("metered_mgpu_s", models.BigIntegerField()),
                ("accounted_mgpu_s", models.BigIntegerField()),
                ("differences", models.JSONField(default=list)),
                ("difference_count", models.IntegerField()),
                ("cut_count", models.IntegerField()),
                ("cut_mgpu_s", models.BigIntegerField()),
                (
                    "team",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "reconciliation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="accounts",
                        to="billing.reconciliation",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="UsageSegment",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField(null=True)),
                ("guaranteed_mgpu", models.BigIntegerField()),
                ("borrowed_mgpu", models.BigIntegerField()),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="segments",
                        to="billing.meteredattempt",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DecayedUse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("mgpu_s", models.BigIntegerField()),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "user", "pool"),
                        name="decayed_use_once_per_team_user_and_pool",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("mgpu_s__gt", 0)), name="decayed_use_is_some"
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="meteredattempt",
            index=models.Index(fields=["job_id"], name="metered_by_job"),
        ),
        migrations.AddConstraint(
            model_name="meteredattempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("mgpu__gte", 1), ("mgpu__lte", 10000000000)),
                name="metered_attempt_holds_gpus",
            ),
        ),
        migrations.AddConstraint(
            model_name="meteredattempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("classed_at", None), ("guaranteed_mgpu", None)),
                    models.Q(("classed_at__isnull", False), ("guaranteed_mgpu__isnull", False)),
                    _connector="OR",
                ),
                name="metered_attempt_has_a_whole_first_class",
            ),
        ),
        migrations.AddConstraint(
            model_name="meteranomaly",
            constraint=models.UniqueConstraint(
                fields=("attempt", "kind", "reason", "at"), name="meter_anomaly_noted_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="meteranomaly",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("reason__in", ["conflict", "clock_ahead", "ends_before_start"])
                ),
                name="meter_anomaly_reason_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="lateuse",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("end__gt", models.F("start")), models.Q(("mgpu", 0), _negated=True)
                ),
                name="late_use_is_some",
            ),
        ),
        migrations.AddConstraint(
            model_name="meteredparty",
            constraint=models.UniqueConstraint(
                fields=("user", "team", "pool", "cluster", "organization"),
                name="metered_party_is_told_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="meterevent",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind__in", ["classed", "sized", "anew"]), _negated=True),
                fields=("attempt", "kind"),
                name="meter_event_once_per_attempt",
            ),
        ),
        migrations.AddConstraint(
            model_name="meterevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["started", "ended", "lost", "classed", "sized", "anew"])
                ),
                name="meter_event_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="meterevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("guaranteed_mgpu__isnull", False), ("kind", "classed")),
                    models.Q(
                        models.Q(("kind", "classed"), _negated=True), ("guaranteed_mgpu", None)
                    ),
                    _connector="OR",
                ),
                name="meter_class_has_an_amount",
            ),
        ),
        migrations.AddConstraint(
            model_name="meterevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind", "sized"),
                        ("mgpu__gte", 1),
                        ("mgpu__isnull", False),
                        ("mgpu__lte", 10000000000),
                    ),
                    models.Q(models.Q(("kind", "sized"), _negated=True), ("mgpu", None)),
                    _connector="OR",
                ),
                name="meter_size_has_an_amount",
            ),
        ),
        migrations.AddConstraint(
            model_name="ratecard",
            constraint=models.CheckConstraint(
                condition=models.Q(("currency__regex", "\\A[A-Z]{3}\\Z")),
                name="rate_card_currency_is_iso_4217",
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=models.CheckConstraint(
                condition=models.Q(("price_nano__gte", 0)), name="rate_price_is_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=models.CheckConstraint(
                condition=models.Q(("usage_class__in", ["guaranteed", "borrowed"])),
                name="rate_usage_class_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=models.CheckConstraint(
                condition=models.Q(("end", None), ("end__gt", models.F("start")), _connector="OR"),
                name="rate_line_has_a_length",
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[
                    ("card", "="),
                    ("pool", "="),
                    ("usage_class", "="),
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
                name="rate_has_one_price_at_a_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="reconciliation",
            constraint=models.UniqueConstraint(
                fields=("cluster", "day"), name="day_reconciled_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="reconciliation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("acknowledged_at", None),
                        ("acknowledged_by", ""),
                        ("acknowledged_digest", ""),
                        ("acknowledged_reason", ""),
                    ),
                    models.Q(
                        ("acknowledged_at__isnull", False),
                        models.Q(("acknowledged_by", ""), _negated=True),
                        models.Q(("acknowledged_reason", ""), _negated=True),
                        models.Q(("acknowledged_digest", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="acknowledgement_has_its_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="reconciliation",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["green", "red", "pending", "unavailable"])),
                name="reconciliation_status_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="reconciliation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("as_of", None), ("until", None)),
                    models.Q(("as_of__isnull", False), ("until__isnull", False)),
                    _connector="OR",
                ),
                name="reconciliation_says_until_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="reconciliation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status__in", ["green", "red"]), _negated=True),
                    ("as_of__isnull", False),
                    _connector="OR",
                ),
                name="reconciliation_has_compared",
            ),
        ),
        migrations.AddConstraint(
            model_name="reconciledaccount",
            constraint=models.UniqueConstraint(
                fields=("reconciliation", "account", "pool"), name="account_reconciled_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="reconciledaccount",
            constraint=models.CheckConstraint(
                condition=models.Q(("accounted_mgpu_s__gte", 0), ("metered_mgpu_s__gte", 0)),
                name="reconciled_use_is_not_negative",
            ),
        ),
        migrations.AddIndex(
            model_name="usagesegment",
            index=models.Index(fields=["start"], name="segment_by_start"),
        ),
        migrations.AddIndex(
            model_name="usagesegment",
            index=models.Index(fields=["end"], name="segment_by_end"),
        ),
        migrations.AddConstraint(
            model_name="usagesegment",
            constraint=models.CheckConstraint(
                condition=models.Q(("end", None), ("end__gt", models.F("start")), _connector="OR"),
                name="segment_has_a_length",
            ),
        ),
        migrations.AddConstraint(
            model_name="usagesegment",
            constraint=models.CheckConstraint(
                condition=models.Q(("borrowed_mgpu__gte", 0), ("guaranteed_mgpu__gte", 0)),
                name="segment_holds_something",
            ),
        ),
        migrations.AddConstraint(
            model_name="usagesegment",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[
                    ("attempt", "="),
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
                name="segment_counts_a_second_once",
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
