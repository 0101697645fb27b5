"""Was the outcome of a call clear? A value without NaN, or an error that somebody wrote for the user."""

from __future__ import annotations

import dis
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

import scarless

CLEAR = (ValueError, TypeError, AttributeError, ImportError, OSError, NotImplementedError)
PREDICTIONS = ("predict_proba", "predict_propensity", "predict_posterior", "propensity")
BROUGHT = ("(estimator:", "(propensity_estimator:", "(label_frequency:", "(estimators:")
MAY_HAVE_GAPS = ("simulate_looks", "simulate_audit")  # what nobody looked at is NaN
SHORTEST = 20  # characters of an error that says what was expected, what came and what to do
SECONDS = 60
PACKAGE = Path(scarless.__file__).parent


class TooLong(BaseException):
    """A call that takes longer than any call on so few rows should."""


@dataclass
class Trial:
    """The steps of one hostile call, and how they ended."""

    target: str
    arguments: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    verdict: str = "fine"  # "clear": a clear error; "unclear"
    what: str = ""  # the error or warning
    where: str = ""  # its innermost frame
    text: str = ""

    @property
    def group(self) -> tuple[str, str]:
        """What makes two unclear outcomes the same fault."""
        return self.where, self.what

    def unclear(self, what: str, where: str, text: str = "") -> None:
        """Note an unclear outcome; the first one counts."""
        if self.verdict != "unclear":
            self.verdict, self.what, self.where, self.text = "unclear", what, where, text

    def do(self, step: str, function: Callable[[], Any]) -> Any:
        """Take one step; return its value, or end the trial by `Ended`."""
        self.steps.append(step)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with time_limit(SECONDS):
                    value = function()
            except TooLong as error:
                self.unclear(f"no end in {SECONDS} s", place(error.__traceback__), "".join(traceback.format_exc()))
                raise Ended from error
            except Exception as error:
                self._judge_error(error)
                raise Ended from error
            finally:
                self._judge_warnings(caught)
        self._judge_value(step, value)
        return value

    def _others(self) -> bool:
        """Return whether the user has brought a model of scikit-learn's."""
        return any(name in given for given in self.arguments for name in BROUGHT)

    def _judge_error(self, error: Exception) -> None:
        if self.verdict == "unclear":
            return
        if is_clear(error, others=self._others()):
            self.verdict, self.what, self.text = "clear", type(error).__name__, str(error)
        else:
            self.unclear(type(error).__name__, place(error.__traceback__), traceback.format_exc())

    def _judge_warnings(self, caught: list[warnings.WarningMessage]) -> None:
        for warning in caught:
            if is_accident(warning, others=self._others()):
                where = short(f"{warning.filename}:{warning.lineno}")
                self.unclear(f"{warning.category.__name__}: {warning.message}", where)

    def _judge_value(self, step: str, value: Any) -> None:
        numbers = value if isinstance(value, np.ndarray | float | tuple) else getattr(value, "value", None)
        if numbers is None:
            return
        try:
            array = np.asarray(numbers, dtype=np.float64)
        except (TypeError, ValueError):
            return  # words, or arrays of several shapes
        if np.isnan(array).any() and step not in MAY_HAVE_GAPS and not getattr(value, "no_interval", ""):
            self.unclear("NaN", step, repr(value))
        elif step.rpartition(".")[2] in PREDICTIONS and not ((array >= 0) & (array <= 1)).all():
            self.unclear("not in [0, 1]", step, repr(value))


class Ended(Exception):
    """A step of a trial has failed, clearly or not."""


def is_clear(error: Exception, *, others: bool) -> bool:
    """Return whether an error was written for the user: by this library, or by scikit-learn's checks.

    With ``others``, the user has brought a model of scikit-learn's, whose own errors are then for the user too.
    """
    if not isinstance(error, CLEAR) or len(str(error)) < SHORTEST:
        return False
    innermost = last(error.__traceback__)
    if innermost is None:
        return False
    path = innermost.tb_frame.f_code.co_filename.replace("\\", "/")
    if is_ours(path):
        return is_raise(innermost)
    checks = ("/sklearn/utils/", "/sklearn/base.py", "/sklearn/model_selection/_split.py")
    return any(part in path for part in checks) or (others and "/sklearn/" in path)


def is_ours(path: str) -> bool:
    """Return whether a file belongs to this library.

    The folder's name does not say so: a checkout may be called scarless too, and its environment lies inside it.
    """
    return Path(path).is_relative_to(PACKAGE)


def is_raise(step: TracebackType) -> bool:
    """Return whether a frame was left by a ``raise`` of its own, and not by something that went wrong in it."""
    code = step.tb_frame.f_code
    return any(i.offset == step.tb_lasti and i.opname == "RAISE_VARARGS" for i in dis.get_instructions(code))


def is_accident(warning: warnings.WarningMessage, *, others: bool) -> bool:
    """Return whether a warning is arithmetic gone wrong, or a use of other libraries that will break.

    With ``others``, arithmetic in scikit-learn is that of a model that the user has brought.
    """
    path = warning.filename.replace("\\", "/")
    if issubclass(warning.category, RuntimeWarning):
        return not (others and "/sklearn/" in path)
    if issubclass(warning.category, DeprecationWarning | FutureWarning | ResourceWarning):
        return is_ours(path) and not issubclass(warning.category, DataConversionWarning)
    return False


def last(step: TracebackType | None) -> TracebackType | None:
    """Return the innermost frame of a traceback."""
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step


def place(step: TracebackType | None) -> str:
    """Return the innermost frame within this library, and the innermost of all where that is another."""
    found, innermost = None, last(step)
    while step is not None:
        if is_ours(step.tb_frame.f_code.co_filename):
            found = step
        step = step.tb_next
    words = [_words(frame) for frame in (found, innermost) if frame is not None]
    return " > ".join(dict.fromkeys(words))


def _words(step: TracebackType) -> str:
    code = step.tb_frame.f_code
    return f"{short(code.co_filename)}:{step.tb_lineno} {code.co_name}"


def short(path: str) -> str:
    """Return a path from its package on."""
    path = path.replace("\\", "/")
    for mark in ("/site-packages/", "/src/"):
        if mark in path:
            return path.rpartition(mark)[2]
    return "/".join(Path(path).parts[-2:])


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in this thread, which must be the main one, when the time is up; no limit on Windows."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
