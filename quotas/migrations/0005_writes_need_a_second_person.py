"""Rules of organizations about writes that need a second person."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0004_users_of_teams_have_caps"),
        ("tenants", "0008_refused_invitations_are_mailed_later"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SecondPersonPolicy",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenants.node",
                    ),
                ),
                ("stopped_jobs_min", models.IntegerField(null=True)),
                ("moved_mgpu_max", models.BigIntegerField(null=True)),
                ("guards_rules", models.BooleanField(default=False)),
                ("allows_emergency", models.BooleanField(default=False)),
                ("changed_at", models.DateTimeField(null=True)),
                ("version", models.IntegerField(default=1)),
                (
                    "changed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("stopped_jobs_min", None),
                            models.Q(
                                ("stopped_jobs_min__gte", 1), ("stopped_jobs_min__lte", 1000000)
                            ),
                            _connector="OR",
                        ),
                        name="second_person_from_one_stopped_job",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("moved_mgpu_max", None),
                            models.Q(
                                ("moved_mgpu_max__gte", 0), ("moved_mgpu_max__lte", 10000000000)
                            ),
                            _connector="OR",
                        ),
                        name="second_person_above_a_number_of_gpus",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("changed_at", None), ("changed_by", None)),
                            models.Q(("changed_at__isnull", False), ("changed_by__isnull", False)),
                            _connector="OR",
                        ),
                        name="second_person_policy_knows_its_last_change",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="quotachange",
            name="is_decided",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="plannedchange",
            name="is_decided",
            field=models.BooleanField(default=False),
        ),
    ]
