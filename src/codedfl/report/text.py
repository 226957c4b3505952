"""Numbers as people read them, and how every table on the terminal looks."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

NEVER = "never"
TINY, HUGE = 1e-3, 1e6  # beyond them numbers are shown with a power of ten
THIN = "\u202f"  # between thousands: narrow and never broken


def number(value: float | None) -> str:
    """A measured value: three digits, more from 1000 on, powers of ten where it is huge or tiny; None is "never"."""
    if value is None:
        return NEVER
    if value and not TINY <= abs(value) < HUGE:
        return _power(value)
    return count(round(value)) if value == 0 or abs(value) >= 99.95 else f"{value:#.3g}"


def _power(value: float) -> str:
    """Such as 1.23e6: no column holds all digits of what may come."""
    digits, power = f"{value:.2e}".split("e")
    return f"{digits}e{int(power)}"


def count(value: float | None) -> str:
    """Epochs, and the ticks of an axis: no more digits than it has, grouped from 10 000 on; None is "never"."""
    if value is None:
        return NEVER
    if abs(value) > HUGE:
        return _power(value)
    return f"{value:,.0f}".replace(",", THIN) if abs(value) >= 10_000 else f"{value:.4g}"


def seconds(value: float | None) -> str:
    """A time in three digits, or that it was never reached."""
    return NEVER if value is None else f"{number(value)}{THIN}s"


def score(value: float, score_name: str) -> str:
    """Accuracy in per cent, R^2 as a number."""
    if score_name == "accuracy":
        return f"{100 * value:.1f}{THIN}%"
    return f"{value:.3f}" if abs(value) < 1000 else _power(value)


def terminal_table(title: str, caption: str = "") -> Table:
    """How every table with a title looks; columns and rows are to be added."""
    return Table(
        title=title or None,
        caption=caption or None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
