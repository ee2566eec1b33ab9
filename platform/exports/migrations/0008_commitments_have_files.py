"""Files of commitments."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("exports", "0007_statements_have_files"),
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
                    ("focus_contract_commitment", "Focus Contract Commitment"),
                    ("focus_invoice_detail", "Focus Invoice Detail"),
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
                    ("focus_contract_commitment", "Focus Contract Commitment"),
                    ("focus_invoice_detail", "Focus Invoice Detail"),
                ],
                max_length=32,
            ),
        ),
    ]
