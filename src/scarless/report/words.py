"""Formatting of numbers and table values for people."""

import math
import re
from datetime import date, datetime
from math import isfinite
from typing import Any

from scarless.experiments.statistics import MeanInterval

NO_VALUE = "–"
LONGEST_NAME = 300  # characters of a name or a value
# Control characters, and characters that reverse the direction of text.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def plain(value: float, decimals: int) -> str:
    """Return a number with fixed decimals; a positive number that rounds to zero is shown as, for example, <0.001.

    Examples
    --------
    >>> plain(0.12345, 3), plain(0.00001, 3), plain(-0.5, 1), plain(float("nan"), 3)
    ('0.123', '<0.001', '−0.5', '–')
    """
    if not isfinite(value):
        return NO_VALUE
    smallest = 10.0**-decimals
    if 0 < value < smallest / 2:
        return f"<{smallest:.{decimals}f}"
    return _minus(f"{value:.{decimals}f}")


def signed(value: float, decimals: int) -> str:
    """Return a difference with its sign.

    Examples
    --------
    >>> signed(0.12345, 3), signed(-0.12345, 3), signed(0.0, 3)
    ('+0.123', '−0.123', '0.000')
    """
    if not isfinite(value):
        return NO_VALUE
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else _minus(text)


def with_half(interval: MeanInterval, decimals: int, *, sign: bool = False) -> str:
    """Return a mean and half the width of its interval.

    Examples
    --------
    >>> with_half(MeanInterval(0.5, 0.01, 25), 3), with_half(MeanInterval(0.5, float("nan"), 1), 3)
    ('0.500 ± 0.010', '0.500')
    """
    mean = (signed if sign else plain)(interval.mean, decimals)
    return f"{mean} ± {interval.half:.{decimals}f}" if isfinite(interval.half) else mean


def p_value(p: float) -> str:
    """Return a p-value with two or three decimals.

    Examples
    --------
    >>> p_value(0.0004), p_value(0.0123), p_value(0.47), p_value(1.0)
    ('<0.001', '0.012', '0.47', '1.00')
    """
    if not isfinite(p):
        return NO_VALUE
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def p_sentence(p: float) -> str:
    """Return a p-value for a sentence.

    Examples
    --------
    >>> p_sentence(0.0004), p_sentence(0.25)
    ('p < 0.001', 'p = 0.25')
    """
    text = p_value(p)
    return f"p < {text[1:]}" if text.startswith("<") else f"p = {text}"


def percent(share: float) -> str:
    """Return a share as a percentage.

    Examples
    --------
    >>> percent(0.934), percent(-0.5)
    ('93%', '−50%')
    """
    return _minus(f"{100 * share:.0f}%") if isfinite(share) else NO_VALUE


def _minus(text: str) -> str:
    return text.replace("-", "−")


# --- for the report of a fit: counts, shares, probabilities, ratios, table cells


def number(value: Any) -> float | None:
    """Return a finite number as a float, or None.

    Examples
    --------
    >>> number(1), number(float("nan")), number(None)
    (1.0, None, None)
    """
    return None if value is None or not math.isfinite(value) else float(value)


def text(value: Any, longest: int = LONGEST_NAME) -> str:
    """Return a name or value as text without control characters, shortened if it is long.

    Examples
    --------
    >>> text("a" + chr(0x202E) + "b", 10), text("x" * 20, 5)
    ('a�b', 'xxxx…')
    """
    clean = _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def cell(value: Any) -> str:
    """Return the value of a table cell as text.

    Examples
    --------
    >>> cell(71.0), cell(float("nan")), cell(None), cell(True), cell(0.123456), cell(datetime(2020, 5, 1))
    ('71', 'missing', 'missing', 'yes', '0.1235', '2020-05-01')
    """
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if is_missing(value):
        return "missing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 or not value.is_integer() else f"{value:.0f}"
    if isinstance(value, datetime) and value.time() == datetime.min.time():
        return date.isoformat(value)
    return text(value, 60)


def is_missing(value: Any) -> bool:
    """Whether the value of a table cell is missing."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float) and math.isnan(value)


def count(value: float | None) -> str:
    """Return a number of rows.

    Examples
    --------
    >>> count(6000), count(2.5), count(None)
    ('6,000', '2.5', '–')
    """
    if value is None:
        return NO_VALUE
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.1f}"


def about(value: float) -> str:
    """Return an estimated number of rows, rounded to three digits.

    Examples
    --------
    >>> about(1237.6), about(12.3), about(0.2), about(1234567)
    ('1,240', '12', '0', '1,230,000')
    """
    digits = 10.0 ** max(math.floor(math.log10(max(value, 1.0))) - 2, 0)
    return f"{round(value / digits) * digits:,.0f}"


def share(value: float | None) -> str:
    """Return a share as a percentage with two digits.

    Examples
    --------
    >>> share(0.174), share(0.0123), share(0.0004), share(1.0), share(0.998), share(None)
    ('17%', '1.2%', '0.04%', '100%', '99.8%', '–')
    """
    return NO_VALUE if value is None else f"{_hundredths(value)}%"


def chance(value: float | None) -> str:
    """Return the probability that a row is positive, or that it has a label, in whole percent.

    Examples
    --------
    >>> chance(0.978), chance(0.9999), chance(0.004), chance(1.0), chance(None)
    ('98%', '>99%', '<1%', '100%', '–')
    """
    if value is None:
        return NO_VALUE
    if 0.995 <= value < 1.0:
        return ">99%"
    return "<1%" if 0.0 < value < 0.005 else f"{100.0 * value:.0f}%"


def share_range(low: float, high: float) -> str:
    """Return a range of shares as one phrase, or a single share if both ends are rounded to the same text.

    Examples
    --------
    >>> share_range(0.17, 0.253), share_range(0.25, 0.2501)
    ('17 to 25%', '25%')
    """
    if _hundredths(low) == _hundredths(high):
        return share(low)
    return f"{_hundredths(low)} to {_hundredths(high)}%"


def _hundredths(value: float) -> str:
    """Return a share in percent, without the character %; shares near 0 or 1 get more digits."""
    percent = 100.0 * value
    near = min(percent, 100.0 - percent)
    if near <= 0 or near >= 9.5:
        return f"{percent:.0f}"
    if near >= 0.095:
        return f"{percent:.1f}".removesuffix(".0")
    return f"{percent:.2g}" if percent < 50 else ">99.9"


def ratio(value: float | None) -> str:
    """Return a ratio with three digits.

    Examples
    --------
    >>> ratio(1.2345), ratio(0.0456), ratio(12345.0), ratio(1e9), ratio(1e-9), ratio(None)
    ('1.23', '0.0456', '12,300', '>1,000,000', '<0.000001', '–')
    """
    if value is None:
        return NO_VALUE
    if value > 1e6:
        return ">1,000,000"
    if 0 <= value < 1e-6:
        return "<0.000001"
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{float(f'{value:.3g}'):,.{digits}f}"
