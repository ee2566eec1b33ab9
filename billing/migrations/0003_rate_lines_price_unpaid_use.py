from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0002_attempts_count_use_at_a_factor"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="rateline",
            name="rate_usage_class_is_known",
        ),
        migrations.AlterField(
            model_name="rateline",
            name="usage_class",
            field=models.CharField(
                choices=[
                    ("guaranteed", "Guaranteed"),
                    ("borrowed", "Borrowed"),
                    ("unpaid", "Unpaid"),
                    ("fault", "Fault"),
                ],
                max_length=10,
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=models.CheckConstraint(
                condition=models.Q(("usage_class__in", ["guaranteed", "borrowed", "unpaid"])),
                name="rate_usage_class_is_known",
            ),
        ),
    ]
