from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0003_sessions_end_and_attempts_count"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="signinattempts", name="sign_in_attempts_by_age"),
        migrations.RenameField(
            model_name="signinattempts",
            old_name="window_started_at",
            new_name="last_attempt_at",
        ),
        migrations.AddField(
            model_name="signinattempts",
            name="refusals",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="signinattempts",
            name="blocked_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name="signinattempts",
            index=models.Index(fields=["last_attempt_at"], name="sign_in_attempts_by_age"),
        ),
    ]
