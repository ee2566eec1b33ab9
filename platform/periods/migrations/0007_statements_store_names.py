"""Statements store the names of the organization and the provider as they were at the issuing."""

from django.conf import settings
from django.db import migrations, models

#: Statements of before get the names of now. Their history is otherwise append-only.
_NAMES = """
ALTER TABLE periods_statement DISABLE TRIGGER statement_is_append_only;
UPDATE periods_statement s SET organization_name = n.name
FROM tenants_node n WHERE n.id = s.organization_id;
ALTER TABLE periods_statement ENABLE TRIGGER statement_is_append_only;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("periods", "0006_accounting_codes"),
    ]

    operations = [
        migrations.AddField(
            model_name="statement",
            name="organization_name",
            field=models.CharField(default="", max_length=200),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="statement",
            name="provider",
            field=models.CharField(default=settings.PROVIDER_NAME[:500], max_length=500),
            preserve_default=False,
        ),
        migrations.RunSQL(_NAMES, migrations.RunSQL.noop),
    ]
