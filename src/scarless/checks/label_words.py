"""Words that say whether a row has a label."""

from collections.abc import Sequence
from typing import Any

YES = frozenset(
    {"1", "yes", "y", "true", "t", "positive", "pos", "case", "labelled", "labeled", "present", "x",
     "ja", "oui", "si", "sí", "sì", "sim", "da", "да", "tak", "ano", "áno", "igen", "kyllä", "evet", "ναι", "是",
     "はい", "wahr", "vrai", "verdadero", "vero", "positiv", "positif", "positivo"}
)  # fmt: skip
NO = frozenset(
    {"0", "-1", "no", "n", "false", "f", "negative", "neg", "control", "unlabelled", "unlabeled", "absent",
     "nein", "nee", "nej", "nei", "non", "não", "nao", "ne", "нет", "nie", "nem", "ei", "hayır", "όχι", "否", "いいえ",
     "falsch", "faux", "falso", "negativ", "négatif", "negatif", "negativo"}
)  # fmt: skip


def yes_or_no(values: Sequence[Any]) -> list[bool] | None:
    """Return which values say yes, or None where not every value is a word for yes or no.

    Capital letters and blanks around a word do not matter. Where all values say the same, single letters are no
    answer: a column of nothing but `f` need not be one of labels.

    Examples
    --------
    >>> yes_or_no(["Yes", "no", "YES"]), yes_or_no(["m", "f"]), yes_or_no(["f"])
    ([True, False, True], None, None)
    """
    if not all(isinstance(value, str) for value in values):
        return None
    words = [value.strip().casefold() for value in values]
    found = [word in YES for word in words]
    if not words or not all(word in YES | NO for word in words):
        return None
    return None if len(set(found)) == 1 and any(len(word) == 1 and word.isalpha() for word in words) else found
