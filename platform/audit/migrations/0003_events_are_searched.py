"""Indexes for the acts of one person, and for the acts on one thing."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_history_is_append_only")]

    operations = [
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(fields=["actor", "-id"], name="audit_by_actor"),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(
                fields=["subject_kind", "subject_id", "-id"], name="audit_by_subject"
            ),
        ),
    ]
