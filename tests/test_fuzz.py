"""Some calls of ``make fuzz``, and the verdicts on their outcomes."""

import contextlib
import importlib
import io
import time
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_array

from scarless import NaiveClassifier
from scarless.checks.options import check_propensity

judge = pytest.importorskip("benchmarks.fuzz.judge", reason="the benchmarks are not part of the distribution")
base = pytest.importorskip("benchmarks.fuzz.base")
commands = pytest.importorskip("benchmarks.fuzz.commands")
run = pytest.importorskip("benchmarks.fuzz.run")
targets = pytest.importorskip("benchmarks.fuzz.targets")


def verdict(function, step="step"):
    trial = judge.Trial("name")
    with contextlib.suppress(judge.Ended):
        trial.do(step, function)
    return trial.verdict, trial.what


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_unusual_calls_end_clearly(start):
    _, unclear = run.try_calls(0, range(start, start + 25))
    assert not [(number, trial.arguments, trial.what, trial.where) for number, trial in unclear]


@pytest.mark.parametrize(("number", "rate", "last"), [(1, 0.0, "fit --config"), (2, 0.5, "")])
def test_unusual_command_lines_end_clearly(number, rate, last):
    trial = judge.Trial("scarless")
    caller = targets.Caller(base.make_base(np.random.default_rng([30, number])), trial, rate)
    with contextlib.suppress(judge.Ended), contextlib.redirect_stdout(io.StringIO()):
        commands.command_line(caller, "scarless", None)
    assert trial.verdict != "unclear", (trial.what, trial.where, trial.text)
    assert trial.steps[-1].startswith(f"scarless {last}")


def test_an_unclear_error_and_wrong_results_of_a_command_are_unclear(empty_folder):
    trial = judge.Trial("scarless")
    with pytest.raises(judge.Ended):
        commands.run(trial, ["fit", "rows.csv", "--no-such-option"])
    assert (trial.verdict, trial.what) == ("clear", "SystemExit")
    (empty_folder / "summary.json").write_text('{"class_prior": NaN}')
    (empty_folder / "ranked.csv").write_text("rank,probability\n1,0.5\n")
    commands.check_results(trial, empty_folder)
    assert (trial.verdict, trial.what) == ("unclear", "NaN")
    other = judge.Trial("scarless")
    (empty_folder / "summary.json").write_text("{}")
    (empty_folder / "ranked.csv").write_text("rank,probability\n1,1.5\n")
    commands.check_results(other, empty_folder)
    assert (other.verdict, other.what) == ("unclear", "not in [0, 1]")


def test_every_public_name_is_called_or_is_known_to_be_a_result():
    called = {target.name.split(".")[0] for target in targets.targets()} | targets.NOT_CALLED
    public = {name for part in targets.MODULES for name in importlib.import_module(f"scarless{part}").__all__}
    assert public <= called


def test_the_same_seed_and_number_make_the_same_call():
    first, again = run.try_call(3, 5), run.try_call(3, 5)
    assert (first.target, first.arguments, first.steps) == (again.target, again.arguments, again.steps)
    assert any(run.try_call(3, number).arguments != first.arguments for number in (6, 7, 8))


def test_errors_written_for_the_user_are_clear():
    assert verdict(lambda: check_propensity([0.5, 0.0])) == ("clear", "ValueError")
    assert verdict(lambda: check_array([1.0, 2.0])) == ("clear", "ValueError")
    assert verdict(lambda: NaiveClassifier().predict([[1.0]])) == ("clear", "NotFittedError")


@pytest.mark.parametrize(
    "function",
    [
        [].pop,
        lambda: {}["a"],
        lambda: 1 / 0,
        lambda: None.a,
        lambda: np.ones(2) + np.ones(3),  # NumPy's ValueError, which does not name the user's argument
        lambda: np.linalg.inv(np.zeros((2, 2))),
    ],
)
def test_errors_that_were_not_written_for_users_are_unclear(function):
    assert verdict(function)[0] == "unclear"


def test_an_error_while_a_message_is_formatted_is_unclear():
    # The line of the error is a `raise` of the library, but formatting its message raised another error.
    file = str(judge.PACKAGE / "x.py")
    code = compile("def f(v):\n    raise ValueError(f'a number was expected, but came {v:g}')", file, "exec")
    scope = {}
    exec(code, scope)
    assert verdict(lambda: scope["f"](1.0))[0] == "clear"
    assert verdict(lambda: scope["f"]("a"))[0] == "unclear"


def test_errors_of_the_users_own_estimator_are_clear():
    def fails():
        LogisticRegression().fit([[1.0], [2.0]], [1, 1])

    def result(arguments):
        trial = judge.Trial("name", arguments)
        with pytest.raises(judge.Ended):
            trial.do("step", fails)
        return trial.verdict

    assert result([]) == "unclear"
    assert result(["NaiveClassifier(estimator: logistic)"]) == "clear"


def test_arithmetic_of_scikit_learn_in_the_users_own_estimator_is_not_judged():
    """A tree converts to float32, and scikit-learn sums the infinite values before it raises its own error."""
    X = np.array([[1e80], [-1e80], [1.0]])

    def result(*arguments):
        trial = judge.Trial("name", list(arguments))
        with pytest.raises(judge.Ended):
            trial.do("step", lambda: DecisionTreeClassifier().fit(X, [0, 1, 1]))
        return trial.verdict

    assert result() == "unclear"
    assert result("NaiveClassifier(estimator: tree)") == "clear"

    trial = judge.Trial("name", ["NaiveClassifier(estimator: tree)"])
    trial.do("step", lambda: np.sum(np.array([np.inf, -np.inf])) and 1)
    assert trial.verdict == "unclear"


def test_files_of_other_libraries_are_not_ours_even_in_a_folder_called_scarless():
    checkout = judge.PACKAGE.parents[1]
    assert judge.is_ours(str(judge.PACKAGE / "models" / "scar.py"))
    assert not judge.is_ours(str(checkout / ".venv" / "lib" / "site-packages" / "sklearn" / "base.py"))
    assert not judge.is_ours("/home/somebody/scarless/.venv/lib/site-packages/sklearn/base.py")


def test_nan_and_values_outside_their_range_are_unclear():
    assert verdict(lambda: np.array([0.5, np.nan])) == ("unclear", "NaN")
    assert verdict(lambda: float("nan")) == ("unclear", "NaN")
    assert verdict(lambda: (0.1, float("nan"))) == ("unclear", "NaN")
    assert verdict(lambda: np.array([1.5]), "Model.predict_proba") == ("unclear", "not in [0, 1]")
    assert verdict(lambda: np.array([1.5]), "Model.predict") == ("fine", "")
    assert verdict(lambda: np.array(["a"])) == ("fine", "")


def test_invalid_arithmetic_is_unclear_even_if_a_clear_error_follows():
    def both():
        np.log(np.zeros(1))
        check_propensity([0.0])

    assert verdict(lambda: np.log(np.zeros(1)))[0] == "unclear"
    assert verdict(both)[0] == "unclear"
    assert verdict(lambda: warnings.warn("a word to the user", UserWarning, stacklevel=1))[0] == "fine"


def test_a_call_that_does_not_return_is_unclear(monkeypatch):
    monkeypatch.setattr(judge, "MAX_SECONDS", 0.05)
    assert verdict(lambda: time.sleep(30)) == ("unclear", "no end in 0.05 s")
