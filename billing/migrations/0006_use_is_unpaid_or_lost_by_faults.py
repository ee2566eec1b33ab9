import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0005_days_say_when_they_were_green"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChangedUse",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                (
                    "fault",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("node_failed", "Node Failed"),
                            ("lost", "Lost"),
                            ("preempted", "Preempted"),
                        ],
                        max_length=11,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="UnpaidUse",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                ("mgpu", models.BigIntegerField()),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="meterevent",
            name="meter_event_kind_is_known",
        ),
        migrations.AddField(
            model_name="meterevent",
            name="reason",
            field=models.CharField(
                blank=True,
                choices=[
                    ("node_failed", "Node Failed"),
                    ("lost", "Lost"),
                    ("preempted", "Preempted"),
                ],
                db_default="",
                default="",
                max_length=11,
            ),
        ),
        migrations.AddField(
            model_name="usagesegment",
            name="fault",
            field=models.CharField(
                blank=True,
                choices=[
                    ("node_failed", "Node Failed"),
                    ("lost", "Lost"),
                    ("preempted", "Preempted"),
                ],
                db_default="",
                default="",
                max_length=11,
            ),
        ),
        migrations.AddField(
            model_name="usagesegment",
            name="unpaid_mgpu",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name="meteranomaly",
            name="kind",
            field=models.CharField(
                choices=[
                    ("started", "Started"),
                    ("ended", "Ended"),
                    ("lost", "Lost"),
                    ("classed", "Classed"),
                    ("sized", "Sized"),
                    ("anew", "Anew"),
                    ("fault", "Fault"),
                ],
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="meterevent",
            name="kind",
            field=models.CharField(
                choices=[
                    ("started", "Started"),
                    ("ended", "Ended"),
                    ("lost", "Lost"),
                    ("classed", "Classed"),
                    ("sized", "Sized"),
                    ("anew", "Anew"),
                    ("fault", "Fault"),
                ],
                max_length=8,
            ),
        ),
        migrations.AddConstraint(
            model_name="meterevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["started", "ended", "lost", "classed", "sized", "anew", "fault"])
                ),
                name="meter_event_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="meterevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind", "fault"), ("reason__in", ["node_failed", "lost", "preempted"])
                    ),
                    models.Q(models.Q(("kind", "fault"), _negated=True), ("reason", "")),
                    _connector="OR",
                ),
                name="meter_fault_has_a_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="usagesegment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("fault", ""),
                        ("unpaid_mgpu__gte", 0),
                        ("unpaid_mgpu__lte", models.F("borrowed_mgpu")),
                    ),
                    models.Q(
                        ("fault__in", ["node_failed", "lost", "preempted"]), ("unpaid_mgpu", 0)
                    ),
                    _connector="OR",
                ),
                name="segment_has_one_class_for_each_gpu",
            ),
        ),
        migrations.AddField(
            model_name="changeduse",
            name="attempt",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="billing.meteredattempt",
            ),
        ),
        migrations.AddField(
            model_name="unpaiduse",
            name="attempt",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="unpaid_uses",
                to="billing.meteredattempt",
            ),
        ),
        migrations.AddConstraint(
            model_name="changeduse",
            constraint=models.CheckConstraint(
                condition=models.Q(("end__gt", models.F("start"))), name="changed_use_is_some"
            ),
        ),
        migrations.AddConstraint(
            model_name="unpaiduse",
            constraint=models.CheckConstraint(
                condition=models.Q(("end__gt", models.F("start")), ("mgpu__gt", 0)),
                name="unpaid_use_is_some",
            ),
        ),
        migrations.AddConstraint(
            model_name="unpaiduse",
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
                name="unpaid_use_counts_a_second_once",
            ),
        ),
    ]
