"""Refused mails of invitations are tried again later, without holding up the others."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0007_imported_invitations_are_mailed"),
    ]

    operations = [
        migrations.AddField(
            model_name="invitation",
            name="mail_due_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="invitation",
            name="mail_tries",
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.RunSQL(
            "UPDATE tenants_invitation SET mail_due_at = created_at WHERE is_mail_due",
            "UPDATE tenants_invitation SET is_mail_due = true WHERE mail_due_at IS NOT NULL",
        ),
        migrations.RemoveIndex(model_name="invitation", name="invitation_to_be_mailed"),
        migrations.RemoveField(model_name="invitation", name="is_mail_due"),
        migrations.AddIndex(
            model_name="invitation",
            index=models.Index(
                condition=models.Q(("mail_due_at__isnull", False)),
                fields=["mail_due_at"],
                name="invitation_to_be_mailed",
            ),
        ),
    ]
