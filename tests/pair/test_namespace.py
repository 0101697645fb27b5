"""A pair of models fitted to rows of another array API namespace: the same optimum, errors and choice as with numpy."""

import array_api_strict as strict
import numpy as np
import pytest
from tests.engines.shards import shard_engine

from scarless.engines import InMemoryEngine
from scarless.engines.base import Rows
from scarless.engines.blocks import add_up
from scarless.numerics.arrays import in_numpy
from scarless.numerics.linear import Design
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.folds import held_out_logits
from scarless.pair.inference import pair_inference
from scarless.pair.logistic import predict
from scarless.pair.optima import choose, fit_from_starts
from scarless.pair.problem import PairProblem
from scarless.pair.starts import make_starts

AWAY = strict.Device("device1")  # arrays of this device cannot be combined with arrays of the host


class Elsewhere:
    """Rows in three blocks, whose arrays have another namespace than numpy and another device."""

    def __init__(self, X, **rows):
        here = shard_engine([X[:100], X[100:101], X[101:]])
        self.dtype, self.units, self.n_rows, self.n_columns = here.dtype, None, *X.shape
        self.parts = [
            (away(part), {name: away(v[values.where]) for name, v in rows.items()}) for part, values in here.parts
        ]

    def total(self, block_function, *parameters):
        def block(X, rows):
            sums = block_function(X, rows, *parameters)
            fields = [home(field) for field in sums]
            return type(sums)(*fields) if hasattr(sums, "_fields") else tuple(fields)

        return add_up(block(X, rows) for X, rows in self.parts)

    def derive(self, row_function, *parameters, keep=False):
        engine = object.__new__(Elsewhere)
        vars(engine).update(vars(self))
        engine.parts = [(X, {**rows, **row_function(X, rows, *parameters)}) for X, rows in self.parts]
        return engine

    def collect(self, row_function, *parameters):
        return np.concatenate([in_numpy(home(row_function(X, rows, *parameters))) for X, rows in self.parts])


def away(values):
    return strict.asarray(values, device=AWAY)


def home(values):
    # `to_device` is not used, because it fails with old versions of numpy.
    return strict.asarray(values, device=strict.Device("CPU_DEVICE")) if hasattr(values, "to_device") else values


@pytest.fixture
def problems(pu):
    rows = {"s": pu.s.astype(float), "w": np.arange(pu.s.size) % 3 + 0.5}
    f, e = Design.of(np.array([0, 1, 3])), Design.of(np.array([2, 3]))
    engines = Elsewhere(pu.X, **rows), InMemoryEngine(pu.X, rows)
    return [PairProblem.of(engine, f, e, 2.0, 0.5).with_pseudo_observations(4.0) for engine in engines]


def test_the_paper_start_and_the_optimum_are_the_same(problems):
    there, here = (fit_pair(problem, None, FitOptions(1e-12)) for problem in problems)
    np.testing.assert_allclose(there.solution.parameters, here.solution.parameters, rtol=1e-8)
    assert there.solution.n_iter == here.solution.n_iter
    for of in ("f", "e"):
        mine, other = (predict(problem.engine, getattr(problem, of), getattr(here, of)) for problem in problems)
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_errors_and_intervals_are_the_same(problems):
    fit = fit_pair(problems[1], None, FitOptions(1e-12))
    there, here = (pair_inference(problem, fit) for problem in problems)
    np.testing.assert_allclose(there.parameter_errors(), here.parameter_errors(), rtol=1e-9)
    assert there.class_prior_interval(0.9) == pytest.approx(here.class_prior_interval(0.9), rel=1e-9)
    assert there.n_rows == here.n_rows


def test_several_starts_lead_to_the_same_optima_and_choice(problems):
    found = []
    for problem in problems:
        asked = ["paper", "exclusion", 0.5, 0.75, "random", "random"]
        starts = make_starts(problem, asked, np.random.default_rng(0))
        fits = fit_from_starts(problem, starts, tol=1e-11, max_iter=300)
        found.append((fits, choose(problem, fits)))
    (there, chosen), (here, expected) = found
    assert len(there) == len(here)
    assert (chosen.index, chosen.reason) == (expected.index, expected.reason)
    np.testing.assert_allclose(chosen.standard_error, expected.standard_error, rtol=1e-5, atol=1e-8)


def test_swappable_models_are_distinguished(pu):
    rows, all_of_them = {"s": pu.s.astype(float), "w": np.ones(pu.s.size)}, Design.of(np.arange(4))
    objectives = []
    for engine in (Elsewhere(pu.X, **rows), InMemoryEngine(pu.X, rows)):
        problem = PairProblem.of(engine, all_of_them, all_of_them)
        starts = make_starts(problem, [0.5, 0.75], np.random.default_rng(0))
        objectives.append(
            [found.optimum.objective for found in fit_from_starts(problem, starts, tol=1e-11, max_iter=300)]
        )
    np.testing.assert_allclose(*objectives, rtol=1e-9)


@pytest.mark.parametrize("repeated", [False, True])
def test_held_out_logits_are_those_of_numpy_and_of_the_models_of_other_folds(repeated):
    """A row that no fold tests has weight 0; a row that two folds test has the mean of both logits."""
    rng = np.random.default_rng(0)
    X, models, w = rng.normal(size=(5, 2)), list(rng.normal(size=(2, 3))), rng.uniform(0.5, 2.0, 5)
    tested = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [0, 1]]) if repeated else np.eye(2)[[0, 1, 0, 1, 1]]
    rows = {"w": w} | ({"scores": tested.astype(np.int8)} if repeated else {"fold": np.argmax(tested, axis=1)})
    logits = np.stack([X @ beta[:-1] + beta[-1] for beta in models], axis=1)
    expected = (logits * tested).sum(axis=1) / np.maximum(tested.sum(axis=1), 1)
    for found in (
        held_out_logits(X, Rows(rows, slice(0, 5, 1)), models),
        held_out_logits(away(X), {name: away(values) for name, values in rows.items()}, models),
    ):
        np.testing.assert_allclose(home(found["u"]), expected, rtol=1e-12)
        np.testing.assert_array_equal(home(found["w"]), np.where(tested.any(axis=1), w, 0.0))
