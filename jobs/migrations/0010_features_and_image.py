"""Jobs ask for features of their nodes, and for a container image."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_dependencies")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="features",
            field=ArrayField(base_field=models.CharField(max_length=64), default=list, size=None),
        ),
        migrations.AddField(
            model_name="job",
            name="image",
            field=models.CharField(max_length=512, null=True),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(features__len__lte=16), name="job_asks_for_16_features_at_most"
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(image=None) | Q(image__regex=r"\A[!-~]+\Z"),
                name="job_image_is_one_word",
            ),
        ),
    ]
