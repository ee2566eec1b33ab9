"""Jobs leave room on their pages, and have no index twice.

Why a job waits is rewritten many times. No index holds that text, so where a page has room for
the new version none of them is touched: a third of the work. The indexes that go are the
beginnings of others.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0004_held_submissions"),
        ("tenants", "0003_sessions_end_and_attempts_count"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(
            sql="ALTER TABLE jobs_job SET (fillfactor = 70)",
            reverse_sql="ALTER TABLE jobs_job RESET (fillfactor)",
        ),
        migrations.AlterField(
            model_name="attempt",
            name="job",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="attempts",
                to="jobs.job",
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="organization",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tenants.node",
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="team",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="jobs",
                to="tenants.node",
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="jobs",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="jobevent",
            name="job",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="events",
                to="jobs.job",
            ),
        ),
    ]
