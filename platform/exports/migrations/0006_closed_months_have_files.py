"""Files of closed months as they were billed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("exports", "0005_removed_files_are_named"),
    ]

    operations = [
        migrations.AlterField(
            model_name="deliveryschedule",
            name="dataset",
            field=models.CharField(
                choices=[
                    ("charges", "Charges"),
                    ("closed_charges", "Closed Charges"),
                    ("focus_cost_and_usage", "Focus Cost And Usage"),
                    ("focus_billing_period", "Focus Billing Period"),
                ],
                max_length=32,
            ),
        ),
        migrations.AlterField(
            model_name="export",
            name="dataset",
            field=models.CharField(
                choices=[
                    ("charges", "Charges"),
                    ("closed_charges", "Closed Charges"),
                    ("focus_cost_and_usage", "Focus Cost And Usage"),
                    ("focus_billing_period", "Focus Billing Period"),
                ],
                max_length=32,
            ),
        ),
    ]
