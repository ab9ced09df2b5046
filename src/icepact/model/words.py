"""Numbers in sentences."""


def counted(number: int, noun: str) -> str:
    """`1 file`, `12,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_UNITS = ((99.5, 1, "s"), (99.5 * 60, 60, "min"), (48 * 3600, 3600, "h"), (float("inf"), 86400, "days"))
"""Up to so many seconds, a length of time is told in this unit."""


def seconds(number: float) -> str:
    """A length of time as people say it: `40 ms`, `9.5 s`, `20 min`, `2.5 h`, `3.1 days`."""
    if number < 0.095:
        return f"{1000 * number:.0f} ms" if number >= 0.0005 or number == 0 else "below 1 ms"
    size, unit = next((size, unit) for limit, size, unit in _UNITS if number < limit)
    shown = number / size
    digits = f"{shown:.1f}" if shown < 9.95 else f"{shown:,.0f}"
    return f"{digits if unit == 's' else digits.removesuffix('.0')} {unit}"


def money(amount: float, currency: str = "") -> str:
    """`12.34 USD`; small amounts with two digits that count, never with an exponent."""
    if amount >= 1 or amount == 0:
        shown = f"{amount:,.2f}"
    elif amount < 1e-6:
        shown = "below 0.000001"
    else:
        digits = f"{float(f'{amount:.2g}'):.8f}".rstrip("0")
        shown = digits if len(digits) >= 4 else digits.ljust(4, "0")
    return f"{shown} {currency}".rstrip()
