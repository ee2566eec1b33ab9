"""A cluster may say why its jobs get no token for the portal."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0002_pools_have_other_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="portal_refusal",
            field=models.CharField(blank=True, default="", max_length=500),
            preserve_default=False,
        ),
    ]
