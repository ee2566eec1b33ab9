"""Deactivated users are found without reading all of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0007_nodes_are_moved")]

    operations = [
        migrations.AddIndex(
            model_name="user",
            index=models.Index(
                condition=models.Q(("is_active", False)), fields=["id"], name="user_deactivated"
            ),
        ),
    ]
