"""The differences between meter and account, one cause at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from billing.reconciliation import AccountReport, Cause, MeteredRun, reconcile
from builders.reconciliation_builders import (
    ACCOUNT,
    DAY,
    a_metered_run,
    a_run,
    an_id,
)
from connectors.accounts import AccountedRun

OTHER = "ai-company_production_inference"


def causes(reports: tuple[AccountReport, ...]) -> list[tuple[str, str, int]]:
    return [
        (report.account, item.cause.value, item.mgpu_s)
        for report in reports
        for item in report.differences
    ]


def test_what_agrees_is_green() -> None:
    (report,) = reconcile([a_metered_run()], [a_run()], DAY)
    assert (report.account, report.pool) == (ACCOUNT, "h100")
    assert (report.metered_mgpu_s, report.accounted_mgpu_s) == (320_000, 320_000)
    assert report.differences == ()
    assert report.is_green


def test_a_run_that_was_changed_is_compared_piece_by_piece() -> None:
    """Planted: only what it held last counted; the moment of the change left out."""
    run = replace(a_run(mgpu=2_000), before=((120, 8_000), (130, 4_000)))
    used = a_metered_run(1, (110, 120, 8_000), (120, 130, 4_000), (130, 150, 2_000))
    (report,) = reconcile([used], [run], DAY)
    assert (report.metered_mgpu_s, report.accounted_mgpu_s) == (160_000, 160_000)
    assert report.differences == ()
    late = a_metered_run(1, (110, 121, 8_000), (121, 130, 4_000), (130, 150, 2_000))
    (report,) = reconcile([late], [run], DAY)
    assert causes((report,)) == [(ACCOUNT, "gpus_differ", -4_000)]
    assert report.differences[0].accounted_mgpu == 8_000


def test_nothing_is_nothing() -> None:
    assert reconcile([], [], DAY) == ()


def test_what_lies_outside_the_day_is_nothing() -> None:
    assert reconcile([a_metered_run(1, (10, 100, 8_000))], [a_run(2, 200, 300)], DAY) == ()


@pytest.mark.parametrize(
    ("metered", "run", "found"),
    [
        (a_metered_run(), None, [(ACCOUNT, "only_in_meter", -320_000)]),
        (None, a_run(), [(ACCOUNT, "only_in_account", 320_000)]),
        (None, a_run(key=None), [(ACCOUNT, "native_unmapped", 320_000)]),
        (a_metered_run(), a_run(1, 105), [(ACCOUNT, "start_differs", 40_000)]),
        (a_metered_run(), a_run(1, 111), [(ACCOUNT, "start_differs", -8_000)]),
        (a_metered_run(), a_run(1, 110, 149), [(ACCOUNT, "end_differs", -8_000)]),
        (a_metered_run(), a_run(1, 110, 160), [(ACCOUNT, "end_differs", 80_000)]),
        (a_metered_run(), a_run(1, 110, None), [(ACCOUNT, "still_running", 400_000)]),
        (a_metered_run(1, (110, None, 8_000)), a_run(), [(ACCOUNT, "still_running", -400_000)]),
        (a_metered_run(), a_run(mgpu=4_000), [(ACCOUNT, "gpus_differ", -160_000)]),
        (a_metered_run(), a_run(mgpu=0), [(ACCOUNT, "gpus_differ", -320_000)]),
        (
            a_metered_run(1, (110, 120, 8_000), (130, 150, 8_000)),
            a_run(),
            [(ACCOUNT, "meter_gap", 80_000)],
        ),
        (
            a_metered_run(1, (110, 120, 6_000), (120, 150, 9_000)),
            a_run(),
            [(ACCOUNT, "gpus_differ", -30_000), (ACCOUNT, "gpus_differ", 20_000)],
        ),
        # Shifted whole: it begins and ends later, and the sum is 0.
        (
            a_metered_run(),
            a_run(1, 112, 152),
            [(ACCOUNT, "end_differs", 16_000), (ACCOUNT, "start_differs", -16_000)],
        ),
        # Not even at the same time.
        (
            a_metered_run(),
            a_run(1, 160, 161),
            [(ACCOUNT, "start_differs", -320_000), (ACCOUNT, "end_differs", 8_000)],
        ),
        (
            a_metered_run(),
            a_run(account=OTHER),
            [(OTHER, "account_differs", 320_000), (ACCOUNT, "account_differs", -320_000)],
        ),
        (
            a_metered_run(),
            a_run(pool="a100"),
            [(ACCOUNT, "pool_differs", 320_000), (ACCOUNT, "pool_differs", -320_000)],
        ),
        (None, a_run(1, 90, 104), [(ACCOUNT, "only_in_account", 32_000)]),
        (a_metered_run(1, (190, None, 8_000)), None, [(ACCOUNT, "only_in_meter", -80_000)]),
        # Cut at midnight, both the same: what differs belongs to the next day.
        (a_metered_run(1, (190, 205, 8_000)), a_run(1, 190, 210), []),
        # The other way round: this day holds nothing of the meter's, and yet it is no stranger.
        (a_metered_run(1, (80, 100, 8_000)), a_run(1, 80, 103), [(ACCOUNT, "end_differs", 24_000)]),
    ],
)
def test_a_difference_has_one_cause(
    metered: MeteredRun | None, run: AccountedRun | None, found: list[tuple[str, str, int]]
) -> None:
    reports = reconcile([metered] if metered else [], [run] if run else [], DAY)
    assert causes(reports) == found
    for report in reports:
        assert report.is_green == all(
            item.cause is Cause.NATIVE_UNMAPPED for item in report.differences
        )


def test_a_difference_tells_both_sides_whole() -> None:
    (report,) = reconcile([a_metered_run(1, (90, 150, 8_000))], [a_run(1, 90, 151)], DAY)
    (found,) = report.differences
    assert (found.attempt_id, found.job_id, found.native_id) == (an_id(1), an_id(1001), "1")
    assert (found.metered_start, found.metered_end, found.metered_mgpu) == (90, 150, 8_000)
    assert (found.accounted_start, found.accounted_end, found.accounted_mgpu) == (90, 151, 8_000)
    assert (found.user, found.state) == ("bob", "COMPLETED")


def test_an_attempt_that_the_meter_knows_and_has_not_charged_is_named() -> None:
    metered = replace(a_metered_run(), pieces=())
    (report,) = reconcile([metered], [a_run()], DAY)
    (found,) = report.differences
    assert (found.cause, found.attempt_id) == (Cause.ONLY_IN_ACCOUNT, an_id(1))
    assert found.metered_start is None


def test_a_native_of_ours_is_found_by_its_number_and_submit_time() -> None:
    metered = a_metered_run(key=None, native_id="7", submitted_at=90)
    run = a_run(key=None, native_id="7", submitted_at=90)
    assert causes(reconcile([metered], [run], DAY)) == []
    again = replace(run, submitted_at=91)
    assert causes(reconcile([metered], [again], DAY, owned={(ACCOUNT, "bob")})) == [
        (ACCOUNT, "only_in_account", 320_000),
        (ACCOUNT, "only_in_meter", -320_000),
    ]


def test_so_is_one_that_bears_the_name_of_an_attempt() -> None:
    copied = a_run(native_id="9", submitted_at=95)
    native = a_metered_run(2, key=None, native_id="9", submitted_at=95)
    metered = [a_metered_run(native_id="1"), native]
    assert causes(reconcile(metered, [copied, a_run()], DAY)) == []


def test_a_native_of_a_mapped_user_should_have_been_metered() -> None:
    runs = [a_run(key=None), a_run(2, key=None, user="eve")]
    assert causes(reconcile([], runs, DAY, owned={(ACCOUNT, "bob"), (OTHER, "eve")})) == [
        (ACCOUNT, "native_unmapped", 320_000),
        (ACCOUNT, "only_in_account", 320_000),
    ]


def test_of_two_runs_the_recorded_one_is_compared() -> None:
    other = a_run(native_id="9")
    assert causes(reconcile([a_metered_run()], [other, a_run(1, 115)], DAY)) == [
        (ACCOUNT, "second_run", 320_000),
        (ACCOUNT, "start_differs", -40_000),
    ]


def test_of_two_runs_with_one_number_the_one_that_overlaps_is_compared() -> None:
    again = a_run(1, 151, 199, submitted_at=150)
    assert causes(reconcile([a_metered_run()], [again, a_run()], DAY)) == [
        (ACCOUNT, "second_run", 384_000)
    ]
