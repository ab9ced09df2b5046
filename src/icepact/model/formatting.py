"""Formatting of counts, times, money and sizes for people."""


def plural(number: int, noun: str) -> str:
    """`1 file`, `12,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_UNITS = ((99.5, 1, "s"), (99.5 * 60, 60, "min"), (48 * 3600, 3600, "h"), (float("inf"), 86400, "days"))
"""Up to so many seconds, a length of time is shown in this unit."""


def format_seconds(number: float) -> str:
    """A length of time as people say it: `40 ms`, `9.5 s`, `20 min`, `2.5 h`, `3.1 days`."""
    if number < 0.095:
        return f"{1000 * number:.0f} ms" if number >= 0.0005 or number == 0 else "below 1 ms"
    size, unit = next((size, unit) for limit, size, unit in _UNITS if number < limit)
    shown = number / size
    digits = f"{shown:.1f}" if shown < 9.95 else f"{shown:,.0f}"
    return f"{digits if unit == 's' else digits.removesuffix('.0')} {unit}"


def format_money(amount: float, currency: str = "") -> str:
    """`12.34 USD`; small amounts with two digits that count, never with an exponent."""
    if amount >= 1 or amount == 0:
        shown = f"{amount:,.2f}"
    elif amount < 1e-6:
        shown = "below 0.000001"
    else:
        digits = f"{float(f'{amount:.2g}'):.8f}".rstrip("0")
        shown = digits if len(digits) >= 4 else digits.ljust(4, "0")
    return f"{shown} {currency}".rstrip()


def format_size(size: float) -> str:
    """A size for people: three digits and a unit."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PB"


_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def format_duration(seconds: float) -> str:
    """A length of time in the largest unit that leaves no rest."""
    unit = next((u for u, size in _SECONDS.items() if seconds >= size and seconds % size == 0), "s")
    return f"{seconds / _SECONDS[unit]:g}{unit}"
