"""Several fits on the same rows of a device, step by step together: their passes become one.

Each fit has a thread of its own and knows nothing of the others. Where it asks for sums over its rows it waits until
all the others have asked too; then the sums that can be taken in one walk are (`scarless.numerics.several`), and the
others one after the other. So each fit keeps its own damping, line search and end, and whatever runs on an engine can
run in lockstep: folds, penalties, starts, resamples. Only one thread runs at a time, so that nothing depends on chance.
"""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Thread, get_ident
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn import config_context, get_config

from scarless.engines.base import Engine
from scarless.engines.blas import BLAS
from scarless.engines.blocks import Reading, Units
from scarless.engines.device import DeviceEngine
from scarless.engines.fused import terms_for
from scarless.numerics.arrays import namespace_of
from scarless.numerics.objectives import Curvature, LogisticPair, TargetLogistic
from scarless.numerics.several import Together, with_ones

Answer = TypeVar("Answer")

FITS_AT_ONCE = 256  # fits
_KEPT_NUMBERS = 1 << 30  # of products of columns: beyond, they are formed anew in every walk
_KEPT_AT_HOME = 1 << 25  # likewise, of tables in the memory of the machine itself
_FORMED_NUMBERS = 1 << 26  # of products that are formed anew, in one piece
_WALKED_NUMBERS = 1 << 26  # rows times problems, in one piece


def in_lockstep(engines: Sequence[Engine], task: Callable[[int, Engine], Answer]) -> list[Answer]:
    """Return ``task(number, engine)`` for every engine; those on one device run in lockstep, others one by one.

    An error in a task is raised once all have ended, that of the first task that had one.
    """
    if len(engines) < 2 or not all(isinstance(engine, DeviceEngine) for engine in engines):
        return [task(number, engine) for number, engine in enumerate(engines)]
    answers: list[Answer] = []
    walks = _Walks(engines)
    for start in range(0, len(engines), FITS_AT_ONCE):
        meeting = _Meeting(walks)
        answers += meeting.hold(
            [(start + i, engine) for i, engine in enumerate(engines[start : start + FITS_AT_ONCE])], task
        )
    return answers


def go_in_lockstep(engines: Sequence[Engine]) -> bool:
    """Whether fits on these rows run in lockstep, or are part of one that does: nothing for other processes."""
    return all(isinstance(engine, DeviceEngine | _Attending) for engine in engines)


class _Question(NamedTuple):
    """Sums that a fit waits for."""

    engine: DeviceEngine
    block_function: Callable[..., Any]
    parameters: tuple[Any, ...]

    @property
    def kind(self) -> tuple[Any, ...] | None:
        """What questions have in common that one walk can answer; None for those that it cannot."""
        objective, rows = getattr(self.block_function, "__self__", None), self.engine.rows
        if not isinstance(objective, LogisticPair | TargetLogistic) or self.block_function.__name__ != "sums":
            return None
        _, curvature = self.parameters
        designs = tuple(design.indices.tobytes() for design in objective.designs)
        targets = rows["s" if isinstance(objective, LogisticPair) else "t"]
        return id(self.engine.X), type(objective), designs, id(targets), curvature


class _Ended(BaseException):
    """The meeting was broken off: whoever waits goes home. No error of a task's, which might go on after one."""


class _Meeting:
    """Tasks that take turns: each runs until it asks or ends, and only then the next one does.

    Threads that all ran at once would spend most of their time in handing Python's lock to each other.
    """

    def __init__(self, walks: "_Walks") -> None:
        self.walks = walks
        self.turn_over: SimpleQueue[None] = SimpleQueue()
        self.questions: dict[int, _Question] = {}
        self.mail: dict[int, SimpleQueue[Any]] = {}
        self.members: dict[int, int] = {}  # in which thread each task runs
        self.over = False  # whoever asks later, what a task left behind, is answered alone
        self.broken = False

    def hold(self, engines: list[tuple[int, Engine]], task: Callable[[int, Engine], Answer]) -> list[Answer]:
        """Run all tasks to their end, and return their answers in order."""
        results: dict[int, Any] = {}
        config = get_config()

        def attend(number: int, engine: Engine) -> None:
            self.members[number] = get_ident()
            try:
                with config_context(**config):  # scikit-learn's settings are those of a thread
                    results[number] = (True, task(number, _Attending(engine, self, number)))  # type: ignore[arg-type]
            except BaseException as error:  # raised again below
                results[number] = (False, error)
            finally:
                self.turn_over.put(None)

        self.mail = {number: SimpleQueue() for number, _ in engines}
        threads = [Thread(target=copy_context().run, args=(attend, *each), daemon=True) for each in engines]
        with BLAS.on_one_thread():
            try:
                for thread in threads:
                    thread.start()
                    self.turn_over.get()
                while self.questions:
                    self._answer_all()
                self.over = True
            finally:  # nobody waits any more, unless a walk broke or the user did; one task may still run until it asks
                self.broken = not self.over
                for box in self.mail.values():
                    box.put(_Ended())
                for thread in threads:
                    if thread.ident is not None:
                        thread.join()
        for number, _ in engines:
            if not results[number][0]:
                raise results[number][1]
        return [results[number][1] for number, _ in engines]

    def ask(self, number: int, question: _Question) -> Any:
        """Wait for the sums that a question is for."""
        if self.broken:
            raise _Ended
        if self.over or self.members[number] != get_ident():  # a thread of a task's own has no turn
            return question.engine.total(question.block_function, *question.parameters)
        self.questions[number] = question
        self.turn_over.put(None)
        return _given(self.mail[number].get())

    def _answer_all(self) -> None:
        """Answer all questions, and let those who asked take their turns."""
        asked, self.questions = dict(sorted(self.questions.items())), {}
        for number, answer in sorted(self.walks.answers(asked).items()):
            self.mail[number].put(answer)
            self.turn_over.get()


def _given(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer


class _Walks:
    """Walks over rows that answer several questions each; what questions share is kept from one to the next."""

    def __init__(self, engines: Sequence[Any]) -> None:
        self._kept: dict[Any, Any] = {}
        self._tables = {id(engine.X): engine.X for engine in engines}  # that fits share

    def answers(self, asked: dict[int, _Question]) -> dict[int, Any]:
        """Return an answer to each question, or the error that it met."""
        alike: dict[Any, list[int]] = {}
        for number, question in asked.items():
            kind = question.kind
            alike.setdefault(("alone", number) if kind is None else kind, []).append(number)
        found: dict[int, Any] = {}
        for numbers in alike.values():
            questions = [asked[number] for number in numbers]
            found |= zip(numbers, self._answered(questions), strict=True)
        return found

    def _answered(self, questions: list[_Question]) -> list[Any]:
        if len(questions) > 1:
            return self._together(questions)
        engine, block_function, parameters = questions[0]
        try:
            return [engine.total(block_function, *parameters)]
        except Exception as error:  # belongs to the one who asked
            return [error]

    def _together(self, questions: list[_Question]) -> list[Any]:
        engine, block_function, (_, curvature) = questions[0]
        objective: Any = getattr(block_function, "__self__", None)
        together = Together.of(objective, engine.n_columns)
        X, xp = self._once(("rows", id(engine.X)), engine.X, with_ones, engine.X), namespace_of(engine.X)
        with_products = curvature in (Curvature.EXPECTED, Curvature.OBSERVED)
        products = tuple(self._products(engine.X, X, pairs) for pairs in together.pairs) if with_products else ()
        weights = [question.engine.rows["w"] for question in questions]
        lines = self._once(("weights", *map(id, weights)), weights, lambda: xp.stack(weights))
        targets = engine.rows["s" if isinstance(objective, LogisticPair) else "t"]
        betas, terms = np.stack([question.parameters[0] for question in questions]), terms_for(engine.X)
        formed = sum(len(pairs.first) for pairs, own in products if own is None)
        size = max(1, min(_WALKED_NUMBERS // len(questions), _FORMED_NUMBERS // max(1, formed)))
        totals = None
        for start in range(0, engine.n_rows, size):
            part = slice(start, min(start + size, engine.n_rows))
            given = tuple(each.columns(X[part, :]) if own is None else own[part, :] for each, own in products)
            sums = together.sums(X[part, :], given, (targets[part], lines[:, part]), betas, curvature, terms)
            totals = sums if totals is None else tuple(a + b for a, b in zip(totals, sums, strict=True))
        return together.apart(totals or (), curvature)

    def in_units(self, engine: DeviceEngine) -> DeviceEngine:
        """Return an engine whose columns are in their units: of one table once, however many fits want it so.

        A part of the rows is a table of one fit alone, and nothing of it is kept.
        """
        if engine.units is None or id(engine.X) not in self._tables:
            return engine.in_units()
        key = ("units", id(engine.X), id(engine.units))
        X = self._once(key, (engine.X, engine.units), lambda: engine.in_units().X)
        return replace(engine, X=X, reading=Reading(engine.dtype, None))

    def _products(self, table: Any, X: Any, pairs: Any) -> tuple[Any, Any]:
        """Return pairs of columns with their products; without, where these are too many to be kept."""
        at_home = "cpu" in str(X.device).lower()  # where memory is for everyone
        if len(pairs.first) * X.shape[0] > (_KEPT_AT_HOME if at_home else _KEPT_NUMBERS):
            return pairs, None
        return pairs, self._once(("products", id(table), id(pairs)), (table, pairs), pairs.columns, X)

    def _once(self, key: Any, of: Any, function: Callable[..., Any], *parameters: Any) -> Any:
        """Return a function's value, computed once; `of` is kept too, so that its address stays its own."""
        if key[0] == "weights" and key not in self._kept:  # those of the last walk are no longer needed
            self._kept = {other: kept for other, kept in self._kept.items() if other[0] != "weights"}
        if key not in self._kept:
            self._kept[key] = (of, function(*parameters))
        return self._kept[key][1]


@dataclass(frozen=True)
class _Attending:
    """An engine on a device, whose sums are asked for in a meeting."""

    engine: DeviceEngine
    meeting: _Meeting
    number: int

    @property
    def n_rows(self) -> int:
        return self.engine.n_rows

    @property
    def n_columns(self) -> int:
        return self.engine.n_columns

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.engine.dtype

    @property
    def units(self) -> Units | None:
        return self.engine.units

    @property
    def flat_rows(self) -> int:
        return self.engine.flat_rows

    @property
    def X(self) -> Any:
        return self.engine.X

    def total(self, block_function: Callable[..., Any], *parameters: Any) -> Any:
        return self.meeting.ask(self.number, _Question(self.engine, block_function, parameters))

    def derive(self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False) -> Any:
        return self._with(self.engine.derive(row_function, *parameters, keep=keep))

    def collect(self, row_function: Callable[..., Any], *parameters: Any, into: Any = None) -> Any:
        return self.engine.collect(row_function, *parameters, into=into)

    def every(self, step: int, first: int = 0) -> Any:
        return self._with(self.engine.every(step, first))

    def read_as(self, reading: Reading) -> Any:
        return self._with(self.engine.read_as(reading))

    def in_units(self) -> Any:
        return self._with(self.meeting.walks.in_units(self.engine))

    def _with(self, engine: Engine) -> Any:
        return replace(self, engine=engine) if isinstance(engine, DeviceEngine) else engine
