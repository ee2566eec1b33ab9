"""Minor units of currencies, by ISO 4217, and amounts of money as text."""

from __future__ import annotations

from primitives.units import NANO_PER_UNIT

_WITHOUT = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE = "BHD IQD JOD KWD LYD OMN TND"
#: The currencies whose decimals are not two.
DIGITS = {
    **dict.fromkeys(_WITHOUT.split(), 0),
    **dict.fromkeys(_THREE.split(), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}


def digits_of(currency: str | None) -> int:
    """Return the decimals of a currency: 2 for most, and for none."""
    return DIGITS.get(currency or "", 2)


def money_text(nano: int, currency: str | None) -> str:
    """Return nano-currency with the decimals of the currency: "1,234.50" EUR, "1,235" JPY.

    Halves are rounded away from zero.
    """
    digits = digits_of(currency)
    scale = 10**digits
    minor = (2 * abs(nano) * scale + NANO_PER_UNIT) // (2 * NANO_PER_UNIT)
    whole, rest = divmod(minor, scale)
    sign = "-" if nano < 0 and minor else ""
    return f"{sign}{whole:,}" + (f".{rest:0{digits}d}" if digits else "")


def cents_text(cents: int, currency: str | None) -> str:
    """Return hundredths of a currency with its decimals."""
    return money_text(cents * (NANO_PER_UNIT // 100), currency)
