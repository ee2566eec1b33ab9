from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0006_nodes_are_emptied"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="time_limits",
            field=models.JSONField(default=dict),
        ),
    ]
