"""Numbers as people read them."""

from math import isfinite

from scarless.experiments.statistics import MeanInterval

NOTHING = "–"


def plain(value: float, decimals: int) -> str:
    """Return a number with so many decimals; one that would read as zero, and is not, as below the smallest.

    Examples
    --------
    >>> plain(0.12345, 3), plain(0.00001, 3), plain(-0.5, 1), plain(float("nan"), 3)
    ('0.123', '<0.001', '−0.5', '–')
    """
    if not isfinite(value):
        return NOTHING
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
        return NOTHING
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
    """Return a p-value with as many digits as matter.

    Examples
    --------
    >>> p_value(0.0004), p_value(0.0123), p_value(0.47), p_value(1.0)
    ('<0.001', '0.012', '0.47', '1.00')
    """
    if not isfinite(p):
        return NOTHING
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
    return _minus(f"{100 * share:.0f}%") if isfinite(share) else NOTHING


def _minus(text: str) -> str:
    return text.replace("-", "−")
