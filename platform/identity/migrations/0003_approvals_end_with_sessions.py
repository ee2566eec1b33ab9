"""Approvals of device logins that end with the browser session that gave them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("identity", "0002_logins_of_machines")]

    operations = [
        migrations.AddField(
            model_name="devicelogin",
            name="session_id",
            field=models.UUIDField(null=True),
        ),
    ]
