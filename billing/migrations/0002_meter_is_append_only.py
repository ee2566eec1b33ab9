"""What the meter was told is never rewritten."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0001_initial"),
        ("audit", "0002_history_is_append_only"),
    ]

    operations = [
        migrations.RunSQL(
            sql="""
            CREATE TRIGGER meter_event_is_append_only
                BEFORE UPDATE OR DELETE ON billing_meterevent
                FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
            CREATE TRIGGER metered_attempt_is_append_only
                BEFORE UPDATE OR DELETE ON billing_meteredattempt
                FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
            """,
            reverse_sql="""
            DROP TRIGGER metered_attempt_is_append_only ON billing_meteredattempt;
            DROP TRIGGER meter_event_is_append_only ON billing_meterevent;
            """,
        ),
    ]
