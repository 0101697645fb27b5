"""Judges the outcome of a call: clear outcomes are values without NaN and errors that were written for users."""

from __future__ import annotations

import dis
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import DataConversionWarning

import scarless

CLEAR_ERRORS = (ValueError, TypeError, AttributeError, ImportError, OSError, NotImplementedError)
PREDICTIONS = ("predict_proba", "predict_propensity", "predict_posterior", "propensity")
USER_MODELS = ("(estimator:", "(propensity_estimator:", "(label_frequency:", "(estimators:")
# Rows that were not examined, and missing values of the table.
MAY_RETURN_NAN = ("simulate_looks", "simulate_audit", "TableClassifier.explain")
MIN_ERROR_LENGTH = 20  # A shorter text cannot say what was expected, what was found and what to do.
MAX_SECONDS = 60
PACKAGE = Path(scarless.__file__).parent


class TooLong(BaseException):
    """Raised in a call that takes longer than any call on few rows should."""


@dataclass
class Trial:
    """The steps of one call, and its verdict."""

    target: str
    arguments: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    verdict: str = "fine"  # "fine", "clear" (a clear error) or "unclear"
    what: str = ""  # type of the error or warning
    where: str = ""  # innermost frame of its traceback
    text: str = ""

    @property
    def group(self) -> tuple[str, str]:
        """Place and type of the error, which identify a fault."""
        return self.where, self.what

    def unclear(self, what: str, where: str, text: str = "") -> None:
        """Record an unclear outcome; only the first one of a trial is kept."""
        if self.verdict != "unclear":
            self.verdict, self.what, self.where, self.text = "unclear", what, where, text

    def do(self, step: str, function: Callable[[], Any]) -> Any:
        """Do one step and return its value; raise `Ended` if it fails."""
        self.steps.append(step)
        caught: list[Caught] = []
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, category, file, line, *_: caught.append(
                Caught(message, category, file, line, caller(sys._getframe(1)))
            )
            try:
                with time_limit(MAX_SECONDS):
                    value = function()
            except TooLong as error:
                self.unclear(f"no end in {MAX_SECONDS} s", place(error.__traceback__), "".join(traceback.format_exc()))
                raise Ended from error
            except Exception as error:
                self._judge_error(error)
                raise Ended from error
            finally:
                self._judge_warnings(caught)
        self._judge_value(step, value)
        return value

    def _has_user_model(self) -> bool:
        """Return whether an argument is a model of scikit-learn."""
        return any(name in given for given in self.arguments for name in USER_MODELS)

    def refused(self, what: str, text: str) -> None:
        """Record a clear error."""
        if self.verdict != "unclear":
            self.verdict, self.what, self.text = "clear", what, text

    def _judge_error(self, error: Exception) -> None:
        if isinstance(error, Ended):
            return
        if is_clear(error, user_model=self._has_user_model()):
            self.refused(type(error).__name__, str(error))
        else:
            self.unclear(type(error).__name__, place(error.__traceback__), traceback.format_exc())

    def _judge_warnings(self, caught: list[Caught]) -> None:
        for warning in caught:
            if is_accident(warning, user_model=self._has_user_model()):
                where = short(f"{warning.path}:{warning.line}")
                self.unclear(f"{warning.category.__name__}: {warning.message}", where)

    def _judge_value(self, step: str, value: Any) -> None:
        numbers = value if isinstance(value, np.ndarray | float | tuple) else getattr(value, "value", None)
        if numbers is None:
            return
        try:
            array = np.asarray(numbers, dtype=np.float64)
        except (TypeError, ValueError):
            return  # The value is text, or arrays of several shapes.
        if np.isnan(array).any() and step not in MAY_RETURN_NAN and not getattr(value, "no_interval", ""):
            self.unclear("NaN", step, repr(value))
        elif step.rpartition(".")[2] in PREDICTIONS and not ((array >= 0) & (array <= 1)).all():
            self.unclear("not in [0, 1]", step, repr(value))


class Caught(NamedTuple):
    """A warning, and the file of the code that caused it."""

    message: Warning | str
    category: type[Warning]
    path: str
    line: int
    caller: str  # file of the innermost function outside NumPy


def caller(frame: FrameType | None) -> str:
    """Return the file of the innermost function that is neither in NumPy nor in the module `warnings`."""
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        if "/numpy/" not in path and not path.endswith("/warnings.py"):
            return path
        frame = frame.f_back
    return ""


class Ended(Exception):
    """Raised when a step of a trial has failed, with a clear error or not."""


def is_clear(error: Exception, *, user_model: bool) -> bool:
    """Return whether an error was written for users, by this library or by scikit-learn's checks.

    With ``user_model``, an argument is a model of scikit-learn, and its errors count as clear, too.
    """
    if not isinstance(error, CLEAR_ERRORS) or len(str(error)) < MIN_ERROR_LENGTH:
        return False
    innermost = last(error.__traceback__)
    if innermost is None:
        return False
    path = innermost.tb_frame.f_code.co_filename.replace("\\", "/")
    if is_ours(path):
        return is_raise(innermost)
    checks = ("/sklearn/utils/", "/sklearn/base.py", "/sklearn/model_selection/_split.py")
    return any(part in path for part in checks) or (user_model and _passes_scikit_learn(error.__traceback__))


def _passes_scikit_learn(step: TracebackType | None) -> bool:
    """Return whether a frame of a traceback is in scikit-learn."""
    while step is not None and "/sklearn/" not in step.tb_frame.f_code.co_filename.replace("\\", "/"):
        step = step.tb_next
    return step is not None


def is_ours(path: str) -> bool:
    """Return whether a file belongs to this library.

    The name of a folder is not enough: the repository may also be called scarless and contain the environment.
    """
    return Path(path).is_relative_to(PACKAGE)


def is_raise(step: TracebackType) -> bool:
    """Return whether a frame was left by its own ``raise`` statement."""
    code = step.tb_frame.f_code
    return any(i.offset == step.tb_lasti and i.opname == "RAISE_VARARGS" for i in dis.get_instructions(code))


def is_accident(warning: Caught, *, user_model: bool) -> bool:
    """Return whether a warning is about arithmetic, or about a deprecated use of other libraries.

    With ``user_model``, warnings about arithmetic that scikit-learn asked NumPy for do not count.
    """
    if issubclass(warning.category, RuntimeWarning):
        return not (user_model and "/sklearn/" in warning.caller)
    if issubclass(warning.category, DeprecationWarning | FutureWarning | ResourceWarning):
        return is_ours(warning.path.replace("\\", "/")) and not issubclass(warning.category, DataConversionWarning)
    return False


def last(step: TracebackType | None) -> TracebackType | None:
    """Return the innermost frame of a traceback."""
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step


def place(step: TracebackType | None) -> str:
    """Return the innermost frame within this library, and the innermost of all if it is another one."""
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
    """Return a path relative to the folder of its package."""
    path = path.replace("\\", "/")
    for mark in ("/site-packages/", "/src/"):
        if mark in path:
            return path.rpartition(mark)[2]
    return "/".join(Path(path).parts[-2:])


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in the main thread when the time is up. There is no limit on Windows."""
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
