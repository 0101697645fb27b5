"""Words of a command, quoted for the shell of the user: that of Unix, or the command prompt of Windows."""

import os
import re
import shlex
from collections.abc import Iterable

_PLAIN_ON_WINDOWS = re.compile(r"[\w@+=:,./\\-]+")


def quoted(word: str) -> str:
    r"""Return one word of a command, quoted if the shell would otherwise change it.

    The command prompt of Windows removes double quotes only, so a word in single quotes would be several words.

    Parameters
    ----------
    word : str
        A file name, the name of a column, or another argument.

    Returns
    -------
    str
        The word, in quotes if necessary.

    Examples
    --------
    >>> quoted("visits"), "date of visit" in quoted("date of visit")
    ('visits', True)
    """
    if os.name != "nt":
        return shlex.quote(word)
    if _PLAIN_ON_WINDOWS.fullmatch(word):
        return word
    # A program reads backslashes before a quote in pairs, also before the quote that ends the word.
    doubled = re.sub(r'(\\*)"', r'\1\1\\"', word)
    return '"' + re.sub(r"(\\+)$", r"\1\1", doubled) + '"'


def quoted_words(words: Iterable[str]) -> str:
    """Return a command as one line.

    Parameters
    ----------
    words : iterable of str
        The program and its arguments.

    Returns
    -------
    str
        The words, quoted if necessary, with spaces between them.

    Examples
    --------
    >>> quoted_words(["scarless", "fit", "patients.csv"])
    'scarless fit patients.csv'
    """
    return " ".join(map(quoted, words))
