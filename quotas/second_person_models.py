"""The rules of organizations about writes that need a second person."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from primitives.units import MGPU_MAX
from tenants.models import Node, User

#: The largest number of stopped jobs in a rule.
STOPPED_JOBS_MAX = 1_000_000


class SecondPersonPolicy(models.Model):
    """The writes of an organization's quotas, policy and classes that need a second person.

    `stopped_jobs_min` is how many running jobs a write would stop, and `moved_mgpu_max` how many
    GPUs a person may move alone within a day; None is no such rule. With `guards_rules` every
    change of the policy or of a class needs one. With `allows_emergency` a platform administrator
    may go on alone, with a reason. `version` counts changes and is the ETag.
    """

    organization = models.OneToOneField(Node, models.PROTECT, primary_key=True, related_name="+")
    stopped_jobs_min = models.IntegerField(null=True)
    moved_mgpu_max = models.BigIntegerField(null=True)
    guards_rules = models.BooleanField(default=False)
    allows_emergency = models.BooleanField(default=False)
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    changed_at = models.DateTimeField(null=True)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(stopped_jobs_min=None)
                | Q(stopped_jobs_min__gte=1, stopped_jobs_min__lte=STOPPED_JOBS_MAX),
                name="second_person_from_one_stopped_job",
            ),
            models.CheckConstraint(
                condition=Q(moved_mgpu_max=None)
                | Q(moved_mgpu_max__gte=0, moved_mgpu_max__lte=MGPU_MAX),
                name="second_person_above_a_number_of_gpus",
            ),
            models.CheckConstraint(
                condition=Q(changed_by=None, changed_at=None)
                | Q(changed_by__isnull=False, changed_at__isnull=False),
                name="second_person_policy_knows_its_last_change",
            ),
        ]

    def __str__(self) -> str:
        return f"second-person policy of {self.organization}"

    @property
    def is_on(self) -> bool:
        """Return whether any write needs a second person."""
        return (
            self.stopped_jobs_min is not None
            or self.moved_mgpu_max is not None
            or self.guards_rules
        )
