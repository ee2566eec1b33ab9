"""Roles that expire."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0003_roles_by_groups"),
    ]

    operations = [
        migrations.AddField(
            model_name="rolegrant",
            name="expires_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="rolegrant",
            name="version",
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AddIndex(
            model_name="rolegrant",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False)),
                fields=["expires_at"],
                name="role_that_expires",
            ),
        ),
        migrations.AddConstraint(
            model_name="rolegrant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("expires_at", None),
                    ("expires_at__gt", models.F("created_at")),
                    _connector="OR",
                ),
                name="role_expires_after_its_grant",
            ),
        ),
    ]
