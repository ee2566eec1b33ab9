"""The choice how files of FOCUS name users, and how each file does."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

_CHOICES = [("pseudonyms", "Pseudonyms"), ("names", "Names")]

# Until now, FOCUS files had pseudonyms, and the others login names. Reports have sums only.
_FILES_UNTIL_NOW = """
UPDATE exports_export SET users = CASE
    WHEN dataset = 'focus_cost_and_usage' THEN 'pseudonyms'
    WHEN dataset IN ('charges', 'closed_charges') AND format <> 'pdf' THEN 'names'
    ELSE '' END;
UPDATE exports_export SET manifest = manifest || jsonb_build_object('users', NULLIF(users, ''))
WHERE manifest IS NOT NULL;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("exports", "0010_reports_are_pdf"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="export",
            name="users",
            field=models.CharField(blank=True, choices=_CHOICES, default="", max_length=10),
            preserve_default=False,
        ),
        migrations.RunSQL(_FILES_UNTIL_NOW, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="export",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("users__in", ["pseudonyms", "names"]),
                    models.Q(
                        ("users", ""),
                        models.Q(("dataset", "focus_cost_and_usage"), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="export_says_how_it_names_users",
            ),
        ),
        migrations.CreateModel(
            name="ExportPolicy",
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
                (
                    "users",
                    models.CharField(choices=_CHOICES, default="pseudonyms", max_length=10),
                ),
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
                        condition=models.Q(("users__in", ["pseudonyms", "names"])),
                        name="user_naming_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("changed_at", None), ("changed_by", None), ("users", "pseudonyms")
                            ),
                            models.Q(("changed_at__isnull", False), ("changed_by__isnull", False)),
                            _connector="OR",
                        ),
                        name="user_naming_remembers_its_last_change",
                    ),
                ],
            },
        ),
    ]
