"""Second factors of people, and organizations that require one."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

_RULES = """
-- A code belongs to a step of time, so a step that never comes again is a code that is used once.
CREATE FUNCTION refuse_used_authenticator_code() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a code of an authenticator app is accepted once'
        USING ERRCODE = 'integrity_constraint_violation',
              CONSTRAINT = 'authenticator_code_is_used_once';
END
$$;
CREATE TRIGGER authenticator_code_is_used_once
    BEFORE UPDATE OF last_step ON tenants_authenticatorapp
    FOR EACH ROW WHEN (NEW.last_step <= OLD.last_step)
    EXECUTE FUNCTION refuse_used_authenticator_code();
"""

_NO_RULES = """
DROP TRIGGER authenticator_code_is_used_once ON tenants_authenticatorapp;
DROP FUNCTION refuse_used_authenticator_code();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0008_refused_invitations_are_mailed_later"),
    ]

    operations = [
        migrations.AddField(
            model_name="signinpolicy",
            name="requires_second_factor",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="signinpolicy",
            name="version",
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.CreateModel(
            name="RecoveryCode",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="recovery_codes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AuthenticatorApp",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("sealed_key", models.BinaryField()),
                ("last_step", models.BigIntegerField()),
                ("created_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="authenticator_app",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
