"""Stored audits of charges."""

import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

#: A result never changes.
_RULES = """
CREATE TRIGGER charge_audit_is_append_only
    BEFORE DELETE OR UPDATE ON exports_chargeaudit
    FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
CREATE TRIGGER charge_audits_are_never_emptied
    BEFORE TRUNCATE ON exports_chargeaudit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_history();
"""
_NO_RULES = """
DROP TRIGGER charge_audits_are_never_emptied ON exports_chargeaudit;
DROP TRIGGER charge_audit_is_append_only ON exports_chargeaudit;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0001_schema"),
        ("exports", "0002_pseudonyms_have_a_key"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChargeAudit",
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
                ("month", models.DateField()),
                ("audited_at", models.DateTimeField()),
                ("line_count", models.PositiveIntegerField()),
                ("difference_count", models.PositiveIntegerField()),
                ("difference_mgpu_s", models.BigIntegerField()),
                ("difference_nano", models.BigIntegerField()),
                ("differences", models.JSONField(default=list)),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["organization", "month", "-id"], name="charge_audit_by_month"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("difference_count", 0),
                                ("difference_mgpu_s", 0),
                                ("difference_nano", 0),
                                ("differences", []),
                            ),
                            models.Q(
                                ("difference_count__gt", 0),
                                ("difference_count__lte", models.F("line_count")),
                                ("difference_mgpu_s__gte", 0),
                                ("difference_nano__gte", 0),
                                models.Q(
                                    ("difference_mgpu_s__gt", 0),
                                    ("difference_nano__gt", 0),
                                    _connector="OR",
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="charge_audit_adds_up",
                    )
                ],
            },
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
