"""PDF as a format of files."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("exports", "0009_files_have_a_time_zone"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="export", name="export_format_is_known"),
        migrations.AlterField(
            model_name="deliveryschedule",
            name="format",
            field=models.CharField(
                choices=[("csv", "Csv"), ("xlsx", "Xlsx"), ("parquet", "Parquet"), ("pdf", "Pdf")],
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="export",
            name="format",
            field=models.CharField(
                choices=[("csv", "Csv"), ("xlsx", "Xlsx"), ("parquet", "Parquet"), ("pdf", "Pdf")],
                max_length=8,
            ),
        ),
        migrations.AddConstraint(
            model_name="export",
            constraint=models.CheckConstraint(
                condition=models.Q(("format__in", ["csv", "xlsx", "parquet", "pdf"])),
                name="export_format_is_known",
            ),
        ),
    ]
