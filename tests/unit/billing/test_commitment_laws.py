"""The law of commitments: the used part and the unused part are the guarantee."""

from __future__ import annotations

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.charges import charges_of
from billing.models import ExtraCharge
from billing.periods import Period
from builders.billing_builders import a_metered_attempt, a_rate_card, at, terms_of
from builders.portal_builders import a_company, an_actor
from quotas.models import Quota
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR, A_DAY = 3_600, 86_400
DAYS = 5
GPUS = 8


class Undo(Exception):
    """Takes an example's rows back."""


#: A pause before the use and its length in seconds, its GPUs, and its multiplier.
uses = st.tuples(
    st.integers(0, HOUR),
    st.integers(1, A_DAY),
    st.integers(1, GPUS),
    st.sampled_from([1_000_000, 1_500_000]),
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(price_nano_per_s=st.integers(1, 2_000_000), worked=st.lists(uses, max_size=4))
def test_used_and_unused_are_the_guarantee(
    price_nano_per_s: int, worked: list[tuple[int, int, int, int]]
) -> None:
    """The guarantee of 8 GPUs is billed for all five days, whatever of it is used.

    The effective costs of the use are its part at the committed price, without its multiplier, and
    nothing else of the use is billed.
    Planted: use inside of the guarantee billed, too; its effective cost 0.
    """
    try:
        with transaction.atomic():
            company = a_company()
            others = Quota.objects.filter(node__in=[company.vision, company.inference])
            others.update(guaranteed_mgpu=0)
            card = a_rate_card(company.organization, {"guaranteed": price_nano_per_s * HOUR})
            terms_of(card, "commitment", start=0)
            second = used_gpu_s = 0
            for pause, length, gpus, multiplier_ppm in worked:
                second += pause
                a_metered_attempt(
                    company.nlp,
                    second,
                    second + length,
                    mgpu=1_000 * gpus,
                    guaranteed_mgpu=1_000 * gpus,
                    multiplier_ppm=multiplier_ppm,
                )
                second += length
                used_gpu_s += gpus * length
            period = Period(at(0), at(DAYS * A_DAY), at(DAYS * A_DAY))
            finance = an_actor(company.organization, Role.FINANCE)
            charges = [
                row
                for batch in charges_of(actor=finance, period=period, node_path="ai-company")
                for row in batch.rows
            ]
            bought = [row for row in charges if row.usage_class == ExtraCharge.COMMITMENT]
            used = [row for row in charges if row.usage_class != ExtraCharge.COMMITMENT]
            committed_gpu_s = GPUS * DAYS * A_DAY
            assert sum(row.billed_cost_nano for row in bought) == committed_gpu_s * price_nano_per_s
            assert sum(row.effective_cost_nano for row in bought) == 0
            assert {row.billed_cost_nano for row in used} <= {0}
            assert sum(row.effective_cost_nano for row in used) == used_gpu_s * price_nano_per_s
            raise Undo
    except Undo:
        pass
