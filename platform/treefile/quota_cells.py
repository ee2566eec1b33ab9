"""Settings of quotas as cells of a tree file: 12.5 GPUs, 40% of the parent, no limit."""

from __future__ import annotations

import re
from collections.abc import Mapping

from primitives.units import BASIS_POINTS, MGPU_MAX, MGPU_PER_GPU
from quotas.administration import QuotaEdit

#: The columns of a quota, after its pool.
QUOTA_COLUMNS = ("guaranteed", "borrow_limit", "lend_limit", "weight")
#: A limit that is none.
NO_LIMIT = "none"
_WEIGHT_MAX = 1_000_000
_GPUS = re.compile(r"(\d{1,15})(?:\.(\d{1,3}))?", re.ASCII)
_PERCENT = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?\s?%", re.ASCII)
_WEIGHT = re.compile(r"\d{1,7}", re.ASCII)


def cells_of(edit: QuotaEdit) -> dict[str, str]:
    """Return the cells of the settings that `edit` has."""
    cells: dict[str, str] = {}
    if "guaranteed_mgpu" in edit:
        cells["guaranteed"] = _gpus_text(edit["guaranteed_mgpu"])
    if "guaranteed_bp" in edit:
        whole, rest = divmod(edit["guaranteed_bp"], 100)
        cells["guaranteed"] = f"{whole}.{rest:02d}".rstrip("0").rstrip(".") + "%"
    if "borrow_limit_mgpu" in edit:
        cells["borrow_limit"] = _limit_text(edit["borrow_limit_mgpu"])
    if "lend_limit_mgpu" in edit:
        cells["lend_limit"] = _limit_text(edit["lend_limit_mgpu"])
    if "weight" in edit:
        cells["weight"] = str(edit["weight"])
    return cells


def edit_of(cells: Mapping[str, str]) -> QuotaEdit:
    """Return the settings of a row, without those of empty cells. Raises ValueError."""
    edit = QuotaEdit()
    guaranteed, borrow, lend, weight = (cells.get(name, "").strip() for name in QUOTA_COLUMNS)
    if guaranteed:
        percent = _PERCENT.fullmatch(guaranteed)
        if percent is None:
            edit["guaranteed_mgpu"] = _mgpu(guaranteed, "guaranteed", "40%")
        else:
            edit["guaranteed_bp"] = int(percent[1]) * 100 + int((percent[2] or "").ljust(2, "0"))
            if edit["guaranteed_bp"] > BASIS_POINTS:
                raise ValueError("guaranteed is at most 100% of the parent")
    if borrow:
        edit["borrow_limit_mgpu"] = _limit(borrow, "borrow_limit")
    if lend:
        edit["lend_limit_mgpu"] = _limit(lend, "lend_limit")
    if weight:
        if _WEIGHT.fullmatch(weight) is None or not 1 <= int(weight) <= _WEIGHT_MAX:
            raise ValueError(f"weight must be a whole number from 1 to {_WEIGHT_MAX:,}")
        edit["weight"] = int(weight)
    return edit


def _limit(text: str, name: str) -> int | None:
    return None if text == NO_LIMIT else _mgpu(text, name, NO_LIMIT)


def _mgpu(text: str, name: str, other: str) -> int:
    found = _GPUS.fullmatch(text)
    mgpu = (
        0 if found is None else int(found[1]) * MGPU_PER_GPU + int((found[2] or "").ljust(3, "0"))
    )
    if found is None or mgpu > MGPU_MAX:
        raise ValueError(f"{name} must be a number such as 8 or 0.5, or {other}")
    return mgpu


def _limit_text(mgpu: int | None) -> str:
    return NO_LIMIT if mgpu is None else _gpus_text(mgpu)


def _gpus_text(mgpu: int) -> str:
    whole, rest = divmod(mgpu, MGPU_PER_GPU)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".") if rest else str(whole)
