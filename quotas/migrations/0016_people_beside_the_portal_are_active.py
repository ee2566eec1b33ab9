"""The user for those whom a cluster names and nobody knows is none that somebody deactivated."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0015_history_goes_with_its_quota"),
        ("tenants", "0008_user_deactivated"),
    ]

    operations = [
        migrations.RunSQL(
            sql="""
            UPDATE tenants_user SET is_active = true
            WHERE username = 'submitted-on-cluster' AND kind = 'service' AND NOT is_active
            """,
            reverse_sql="",
        ),
    ]
