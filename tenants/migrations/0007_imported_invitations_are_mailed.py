"""Invitations that a timer mails."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0006_sessions_of_people"),
    ]

    operations = [
        migrations.AddField(
            model_name="invitation",
            name="is_mail_due",
            field=models.BooleanField(default=False),
        ),
        migrations.AddIndex(
            model_name="invitation",
            index=models.Index(
                condition=models.Q(("is_mail_due", True)),
                fields=["id"],
                name="invitation_to_be_mailed",
            ),
        ),
    ]
