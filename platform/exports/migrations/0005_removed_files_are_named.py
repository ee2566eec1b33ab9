"""Exports whose files were removed stay in the list."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("exports", "0004_files_are_delivered"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="export",
            name="removed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddConstraint(
            model_name="export",
            constraint=models.CheckConstraint(
                condition=models.Q(("removed_at", None), ("state", "done"), _connector="OR"),
                name="only_a_file_is_removed",
            ),
        ),
    ]
