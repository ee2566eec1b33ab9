"""Roles that groups of an identity provider give, and organizations without passwords."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0002_archivings_are_kept"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignInPolicy",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="sign_in_policy",
                        serialize=False,
                        to="tenants.node",
                    ),
                ),
                ("allows_passwords", models.BooleanField(default=True)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="rolegrant",
            name="role_granted_once",
        ),
        migrations.AddField(
            model_name="rolegrant",
            name="group",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.AddConstraint(
            model_name="rolegrant",
            constraint=models.UniqueConstraint(
                fields=("user", "role", "node", "group"),
                name="role_granted_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="rolegrant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("role", "platform_admin"), _negated=True),
                    ("group", ""),
                    _connector="OR",
                ),
                name="role_of_a_group_is_no_platform_admin",
            ),
        ),
    ]
