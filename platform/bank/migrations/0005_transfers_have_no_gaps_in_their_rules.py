"""A transfer that waits expires, and a withdrawn one names the person, also where that is NULL."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("bank", "0004_settlements_have_revisions"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="credittransfer",
            name="credit_transfer_that_waits_expires",
        ),
        migrations.RemoveConstraint(
            model_name="credittransfer",
            name="credit_transfer_has_a_second_person",
        ),
        migrations.AddConstraint(
            model_name="credittransfer",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("expires_at", None), ("status", "done")),
                    models.Q(
                        models.Q(("status", "done"), _negated=True),
                        ("expires_at__gt", models.F("asked_at")),
                        ("expires_at__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="credit_transfer_that_waits_expires",
            ),
        ),
        migrations.AddConstraint(
            model_name="credittransfer",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decided_at", None), ("decided_by", None), ("status", "pending")),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by", None),
                        ("status__in", ("done", "expired")),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("status__in", ("approved", "rejected")),
                        ("decided_by__isnull", False),
                        models.Q(("decided_by", models.F("asked_by")), _negated=True),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by__isnull", False),
                        ("status", "withdrawn"),
                        ("decided_by", models.F("asked_by")),
                    ),
                    _connector="OR",
                ),
                name="credit_transfer_has_a_second_person",
            ),
        ),
    ]
