from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0010_policy_of_costly_losses"),
    ]

    operations = [
        migrations.RemoveField(
            model_name="plannededit",
            name="applied_version",
        ),
        migrations.RemoveField(
            model_name="plannededit",
            name="base_version",
        ),
    ]
