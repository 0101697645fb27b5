"""Words and names as they stand in a sentence."""

import re
from collections.abc import Sequence
from typing import Any

LONGEST_NAME = 300  # characters of a name or a value
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def listed(words: Sequence[str], most: int | None = None) -> str:
    """Return words as one enumerates them in a sentence, the first few of many.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a"]), listed(list("abcd"), 2)
    ('a, b and c', 'a', 'a, b and 2 more')
    """
    left = 0 if most is None else len(words) - most
    shown = [*words[:most], f"{left} more"] if left > 0 else list(words)
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


def text(value: Any, longest: int = LONGEST_NAME) -> str:
    """Return a name or value as text that cannot turn a page around: without control characters, not endless.

    Examples
    --------
    >>> text("a" + chr(0x202E) + "b", 10), text("x" * 20, 5)
    ('a�b', 'xxxx…')
    """
    clean = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"
