"""Changes of quotas that a second person approved are marked, and so are planned ones."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0005_writes_need_a_second_person")]

    operations = [
        migrations.AddField(
            model_name="quotachange",
            name="has_second_person",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="plannedchange",
            name="has_second_person",
            field=models.BooleanField(default=False),
        ),
    ]
