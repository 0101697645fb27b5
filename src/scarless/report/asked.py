"""The story that a specification tells itself: what its own methods are, and answers to what it asks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scarless.report.duels import Duel, duel_table, duels, fewest_runs
from scarless.report.names import LABELS, SCORES, MethodName, listed
from scarless.report.results import FEWEST_RUNS, Record, Results
from scarless.report.story import Answer, Questions, Story

TITLE = "Answers to the questions"
NOTE = (
    "The words follow from the numbers by fixed rules. A case is a dataset, a condition and a method to be compared "
    "with. A difference is clear if its 95% interval over the runs of a dataset, paired by split and labelling, leaves "
    "out zero. Gains are positive where the first method is better. Ranks and tests take the mean of a dataset's runs "
    "as one observation."
)


def story_of_spec(spec: Record, base: Story) -> Story:
    """Return a story with the names of a specification's own methods, and with its questions."""
    own = {name: _method_name(name, said) for name, said in spec.get("own_methods", {}).items()}
    asked = spec.get("questions", {})
    questions = Questions(TITLE, NOTE, partial(answers, asked)) if asked else base.questions
    return replace(base, method_names={**base.method_names, **own}, questions=questions)


def _method_name(name: str, said: Mapping[str, Any]) -> MethodName:
    parameters = ", ".join(f"{key}={value!r}" for key, value in said.get("parameters", {}).items())
    return MethodName(name, LABELS, f"{said.get('estimator')}({parameters})")


def answers(asked: Mapping[str, Any], results: Results) -> tuple[Answer, ...]:
    """Return the answers to questions of the form: is one method better than others, by a score?"""
    return tuple(_answer(results, text, **question) for text, question in asked.items())


def _answer(results: Results, text: str, *, better: str, than: Sequence[str], by: str) -> Answer:
    found = duels(results, better, than, by)
    if not found:
        return Answer(text, "Cannot be answered", (f"There are no results of both {better} and {listed(than)}.",))
    counted = _counts(found)
    sentences = (_in_words(results, found, counted), *_too_few(found), _tested(found))
    return Answer(text, verdict(found), sentences, (duel_table(results, found),))


def _too_few(found: Sequence[Duel]) -> tuple[str, ...]:
    """Return a sentence where there are too few runs for a verdict."""
    n = fewest_runs(found)
    said = f"It rests on {n} run{'s' * (n > 1)} of each method; a verdict needs at least {FEWEST_RUNS} (n_splits)."
    return (said,) if n < FEWEST_RUNS else ()


def _counts(found: Sequence[Duel]) -> tuple[int, int, int, int]:
    """Return the number of cases; of those in which one is better, clearly better and clearly worse."""
    return (
        sum(len(item.gains) for item in found),
        sum(len(item.better) for item in found),
        sum(len(item.clearly_better) for item in found),
        sum(len(item.clearly_worse) for item in found),
    )


def verdict(found: Sequence[Duel]) -> str:
    """Return the answer in few words: by clear differences, and by the tests of ranks where there are any."""
    n, _, won, lost = _counts(found)
    if fewest_runs(found) < FEWEST_RUNS:
        return "Too few runs for a verdict"
    tested = [item for item in found if not item.comparison.problem]
    if won == n:
        doubt = any(not item.significant for item in tested)
        return "Yes in every case, but not by the test of ranks" if doubt else "Yes"
    if lost == n:
        return "No, the other way round"
    if won and lost:
        return "It depends"
    if won:
        return "In part"
    return "No" if lost else "No clear difference"


def _in_words(results: Results, found: Sequence[Duel], counted: tuple[int, int, int, int]) -> str:
    n, better, won, lost = counted
    names = listed(list(dict.fromkeys(results.label(item.other) for item in found)))
    return (
        f"By {SCORES[found[0].score].label}, {results.label(found[0].one)} is better than {names} in {better} of {n} "
        f"case{'' if n == 1 else 's'}, in {won} of them clearly; it is clearly worse in {lost}."
    )


def _tested(found: Sequence[Duel]) -> str:
    tested = [item for item in found if not item.comparison.problem]
    if not tested:
        return f"There is no test of ranks: {found[0].comparison.problem}."
    sure = sum(item.significant for item in tested)
    return (
        f"Ranks over datasets differ significantly (Friedman, then Nemenyi at 5%) in {sure} of {len(tested)} contests."
    )
