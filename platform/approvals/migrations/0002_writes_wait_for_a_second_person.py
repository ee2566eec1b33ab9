"""Writes that need a second person wait as requests."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
CREATE TRIGGER guarded_write_stays_as_asked
    BEFORE UPDATE ON approvals_guardedwrite
    FOR EACH ROW WHEN (
        (OLD.request_id, OLD.operation, OLD.arguments)
        IS DISTINCT FROM (NEW.request_id, NEW.operation, NEW.arguments)
    ) EXECUTE FUNCTION requests_refuse_changes();
CREATE TRIGGER guarded_write_stays
    BEFORE DELETE ON approvals_guardedwrite
    FOR EACH ROW EXECUTE FUNCTION requests_refuse_changes();
"""
_NO_RULES = """
DROP TRIGGER guarded_write_stays ON approvals_guardedwrite;
DROP TRIGGER guarded_write_stays_as_asked ON approvals_guardedwrite;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0001_schema"),
        ("clusters", "0003_jobs_may_reach_the_portal"),
        ("quotas", "0005_writes_need_a_second_person"),
        ("tenants", "0008_refused_invitations_are_mailed_later"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="GuardedWrite",
            fields=[
                (
                    "request",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="write",
                        serialize=False,
                        to="approvals.changerequest",
                    ),
                ),
                ("operation", models.CharField(max_length=32)),
                ("arguments", models.JSONField()),
                ("title", models.CharField(max_length=200)),
                ("effects", models.JSONField()),
                ("measured_at", models.DateTimeField()),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="changerequest",
            name="request_names_what_its_kind_changes",
        ),
        migrations.RemoveConstraint(
            model_name="changerequest",
            name="request_is_for_more",
        ),
        migrations.RemoveConstraint(
            model_name="changerequest",
            name="request_is_decided_by_another_person",
        ),
        migrations.AddField(
            model_name="changerequest",
            name="is_emergency",
            field=models.BooleanField(default=False),
        ),
        migrations.AlterField(
            model_name="changerequest",
            name="kind",
            field=models.CharField(
                choices=[
                    ("guarantee", "Guarantee"),
                    ("borrow_limit", "Borrow Limit"),
                    ("loan", "Loan"),
                    ("budget", "Budget"),
                    ("class_cap", "Class Cap"),
                    ("role", "Role"),
                    ("write", "Write"),
                ],
                max_length=12,
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind__in", ("guarantee", "borrow_limit")),
                        ("lender", None),
                        ("role", ""),
                        ("pool__isnull", False),
                        ("target", ""),
                        ("target_id", None),
                        ("unit", "mgpu"),
                    ),
                    models.Q(
                        ("kind", "loan"),
                        ("lender__isnull", False),
                        ("role", ""),
                        ("until__isnull", False),
                        ("pool__isnull", False),
                        ("target", ""),
                        ("target_id", None),
                        ("unit", "mgpu"),
                    ),
                    models.Q(
                        ("kind", "budget"),
                        ("role", ""),
                        ("unit__in", ("gpu_hours", "credits", "money")),
                        ("lender", None),
                        ("pool", None),
                        ("target_id__isnull", False),
                        ("until", None),
                        models.Q(("target", ""), _negated=True),
                    ),
                    models.Q(
                        ("kind", "class_cap"),
                        ("role", ""),
                        ("unit", "mgpu"),
                        ("lender", None),
                        ("pool", None),
                        ("target_id__isnull", False),
                        ("until", None),
                        models.Q(("target", ""), _negated=True),
                    ),
                    models.Q(
                        ("amount", None),
                        ("kind", "role"),
                        ("lender", None),
                        ("pool", None),
                        ("target_id", None),
                        ("until", None),
                        ("target", ""),
                        ("unit", ""),
                        models.Q(("role", ""), _negated=True),
                    ),
                    models.Q(
                        ("amount", None),
                        ("kind", "write"),
                        ("lender", None),
                        ("pool", None),
                        ("target_id", None),
                        ("until", None),
                        ("role__in", ("", "platform_admin")),
                        ("target", ""),
                        ("unit", ""),
                    ),
                    _connector="OR",
                ),
                name="request_names_what_its_kind_changes",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ("role", "write")),
                    models.Q(
                        ("amount__gte", 1),
                        ("amount__isnull", False),
                        ("amount__lte", 1000000000000000000),
                    ),
                    _connector="OR",
                ),
                name="request_is_for_more",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("decided_at", None),
                        ("decided_by", None),
                        ("status__in", ("pending", "countered")),
                    ),
                    models.Q(
                        ("decided_at__isnull", False), ("decided_by", None), ("status", "expired")
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("status__in", ("approved", "rejected")),
                        ("decided_by__isnull", False),
                        models.Q(("decided_by", models.F("asked_by")), _negated=True),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("is_emergency", True),
                        ("kind", "write"),
                        ("status", "approved"),
                        ("decided_by", models.F("asked_by")),
                        models.Q(("note", ""), _negated=True),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by__isnull", False),
                        ("status", "withdrawn"),
                        ("decided_by", models.F("asked_by")),
                    ),
                    _connector="OR",
                ),
                name="request_is_decided_by_another_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("is_emergency", False),
                    models.Q(("kind", "write"), ("status", "approved")),
                    _connector="OR",
                ),
                name="emergency_is_an_approved_write",
            ),
        ),
        migrations.AddConstraint(
            model_name="guardedwrite",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("operation", ""), _negated=True),
                    models.Q(("title", ""), _negated=True),
                ),
                name="guarded_write_has_an_operation_and_a_title",
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
