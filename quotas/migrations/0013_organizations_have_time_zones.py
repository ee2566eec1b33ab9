from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0012_people_have_user_numbers"),
        ("tenants", "0005_passwords_and_links"),
    ]

    operations = [
        migrations.AddField(
            model_name="organizationpolicy",
            name="time_zone",
            field=models.CharField(default="UTC", max_length=64),
        ),
        migrations.AddConstraint(
            model_name="organizationpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(("time_zone__regex", r"\A[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*\Z")),
                name="policy_time_zone_is_plain",
            ),
        ),
    ]
