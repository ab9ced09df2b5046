"""Numbers in sentences."""


def counted(number: int, noun: str) -> str:
    """`1 file`, `12,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def seconds(number: float) -> str:
    """`0.4 s`, `9.5 s`, `1,200 s`."""
    return f"{number:.1f} s" if number < 9.95 else f"{number:,.0f} s"


def money(amount: float, currency: str) -> str:
    """`12.34 USD`; small amounts with two digits that count."""
    if amount >= 1 or amount == 0:
        return f"{amount:,.2f} {currency}"
    shown = f"{amount:.2g}"
    return f"{float(shown):.8f}".rstrip("0") + f" {currency}" if amount >= 1e-6 else f"below 0.000001 {currency}"
