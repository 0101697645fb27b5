"""Two networks: the Newton optimum, kinds of inputs, and fits that are resumed after a kill."""

import pickle
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from tests.torch import killed_fit
from tests.torch.nets import make_net

import torch
from scarless import ClassPrior, NaiveClassifier, PseudoObservations, SAREMClassifier
from scarless.torch import NetTraining, SARNetClassifier

EXACT = {
    "optimizer": "lbfgs",
    "optimizer_options": {"line_search_fn": "strong_wolfe", "max_iter": 100, "tolerance_grad": 1e-10},
    "lr": 1.0,
    "batch_size": None,
    "validation_share": 0,
    "dtype": "float64",
    "max_epochs": 20,
    "patience": 3,
    "random_state": 0,
}
# Tables are small and epochs few. Other tests cover the warnings that this causes.
pytestmark = pytest.mark.filterwarnings("ignore:The fit of SARNetClassifier is uncertain:UserWarning")
QUICK = {"max_epochs": 6, "warm_up": 2, "patience": None, "random_state": 0, "recalibrate": "held-out"}


def linear(n_columns):
    return torch.nn.Linear(n_columns, 1)


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = rng.random(n) < expit(2 * X[:, 0] - X[:, 1])
    e = expit(1.5 * X[:, 2])
    return X, (y & (rng.random(n) < e)).astype(int), y, e


def images(n=400):
    """Return digits, and labels of odd ones that bright images get more often."""
    data, target = load_digits(return_X_y=True)
    X, y = data[:n].reshape(-1, 1, 8, 8) / 16.0, target[:n] % 2
    e = expit(2 * (brightness(X) - 0.31) / 0.05)
    return X, (y * (np.random.default_rng(0).random(n) < e)).astype(int), y, e


def brightness(X):
    return X.mean(axis=(1, 2, 3))


# --- results


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_linear_networks_reach_the_newton_optimum(seed):
    X, s, *_ = rows(seed=seed)
    newton = SAREMClassifier(
        propensity_attributes=[2], C=np.inf, propensity_C=np.inf, known=[PseudoObservations(0)]
    ).fit(X, s)
    net = make_net(linear, propensity_attributes=[2], **EXACT).fit(X, s)
    assert net.log_likelihood_ / s.size == pytest.approx(newton.log_likelihood_ / s.size, abs=1e-8)
    assert net.class_prior_ == pytest.approx(newton.class_prior_, abs=1e-4)
    assert net.label_frequency_ == pytest.approx(newton.label_frequency_, abs=1e-4)
    np.testing.assert_allclose(net.predict_propensity(X), newton.predict_propensity(X), atol=1e-3)


def test_adam_in_batches_reaches_the_newton_optimum():
    X, s, *_ = rows()
    newton = SAREMClassifier(
        propensity_attributes=[2], C=np.inf, propensity_C=np.inf, known=[PseudoObservations(0)]
    ).fit(X, s)
    options = {"optimizer": "adam", "lr": 0.02, "propensity_lr": 0.02, "batch_size": None, "validation_share": 0}
    net = make_net(
        linear, propensity_attributes=[2], max_epochs=1500, patience=200, dtype="float64", random_state=0, **options
    ).fit(X, s)
    assert net.log_likelihood_ / s.size == pytest.approx(newton.log_likelihood_ / s.size, abs=1e-4)


def test_weights_count_rows():
    X, s, *_ = rows(n=200)
    often = np.arange(s.size) % 3
    weighted = make_net(linear, propensity_attributes=[2], **EXACT, standardise=False).fit(X, s, often)
    again = make_net(linear, propensity_attributes=[2], **EXACT, standardise=False)
    again.fit(np.repeat(X, often, axis=0), np.repeat(s, often))
    np.testing.assert_allclose(weighted.predict_proba(X), again.predict_proba(X), atol=1e-6)
    assert weighted.score(X, s, often) == pytest.approx(again.score(np.repeat(X, often, axis=0), np.repeat(s, often)))


def test_nonlinear_classes_are_learned_from_biased_labels():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 3))
    y = np.abs(X[:, 0]) > 0.9
    e = expit(2 * X[:, 2])
    s = (y & (rng.random(1500) < e)).astype(int)
    net = make_net(propensity_attributes=[2], lr=0.01, random_state=0).fit(X, s)
    error = np.mean(net.predict(X) != y)
    assert error < 0.06
    assert error < 0.5 * np.mean(NaiveClassifier().fit(X, s).predict(X) != y)
    assert np.mean((net.predict_propensity(X) - e) ** 2) < 0.01
    assert net.class_prior_ == pytest.approx(y.mean(), abs=0.05)


def test_the_best_of_several_starts_is_chosen():
    X, s, *_ = rows(n=200)
    net = make_net(propensity_attributes=[2], n_starts=3, **QUICK).fit(X, s)
    assert net.starts_.shape == (1, 3)
    assert len(set(net.starts_[0])) == 3
    history = net.history_
    highest = [history["log_likelihood"][history["start"] == i].max() for i in range(3)]
    np.testing.assert_allclose(net.starts_[0], highest, atol=1e-6)
    assert net.n_iter_ == QUICK["max_epochs"]


# --- rows of all kinds


def test_images_with_a_function_and_with_an_array_of_features():
    X, s, y, e = images()

    def convolutions():
        nn = torch.nn
        return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 1))

    options = {"lr": 0.01, "max_epochs": 60, "warm_up": 5, "patience": None, "random_state": 0}
    asked = make_net(convolutions, propensity_features=brightness, **options).fit(X, s)
    Z = brightness(X)
    given = make_net(convolutions, **options).fit(X, s, propensity_features=Z)
    # The networks are the same. Only a function is known to depend on X, so only then can the class use the features.
    assert all((a == b).all() for a, b in zip(asked.module_.parameters(), given.module_.parameters(), strict=True))
    assert (asked.history_["log_likelihood"] == given.history_["log_likelihood"]).all()
    found = given.predict_propensity(X, propensity_features=Z)
    assert np.corrcoef(found, e)[0, 1] > 0.9
    assert np.mean(asked.predict(X) != y) < 0.6 * np.mean(s != y)
    q = given.predict_posterior(X, s, propensity_features=Z)
    f = given.predict_proba(X)[:, 1]
    np.testing.assert_allclose(q, np.where(s == 1, 1, f * (1 - found) / (1 - f * found)), rtol=1e-6)
    value = np.where(s == 1, np.log(f * found), np.log1p(-f * found))
    assert given.score(X, s, propensity_features=Z) == pytest.approx(value.mean(), rel=1e-9)


def test_frames_name_their_columns_and_tensors_are_arrays():
    X, s, *_ = rows(n=200)
    frame = pd.DataFrame(X, columns=list("abcd"))
    by_name = make_net(propensity_attributes="c", **QUICK).fit(frame, s)
    by_number = make_net(propensity_attributes=[2], **QUICK).fit(torch.tensor(X), torch.tensor(s))
    assert by_name.feature_names_in_.tolist() == list("abcd")
    assert (by_name.predict_proba(frame) == by_number.predict_proba(torch.tensor(X))).all()


@pytest.mark.parametrize(
    "module", [linear, torch.nn.Linear(4, 1), torch.nn.LazyLinear(1), lambda: torch.nn.Linear(4, 1)]
)
def test_modules_may_be_functions_or_instances(module):
    X, s, *_ = rows(n=100)
    if isinstance(module, torch.nn.LazyLinear):
        module = type("Own", (torch.nn.Linear,), {"__init__": lambda self, n: torch.nn.Linear.__init__(self, n, 1)})
    net = make_net(module, propensity_attributes=[2], **QUICK).fit(X, s)
    assert net.predict_proba(X).shape == (100, 2)


def test_an_instance_is_copied_and_its_weights_are_the_start():
    X, s, *_ = rows(n=100)
    own = torch.nn.Linear(4, 1)
    before = own.weight.detach().clone()
    options = {"max_epochs": 1, "warm_up": 0, "lr": 1e-12, "patience": None, "recalibrate": False, "random_state": 0}
    net = make_net(own, optimizer="sgd", **options).fit(X, s)
    assert (own.weight == before).all()
    np.testing.assert_allclose(net.module_.weight.detach(), before, atol=1e-9)


def test_bfloat16_trains_in_mixed_precision():
    X, s, *_ = rows(n=200)
    net = make_net(propensity_attributes=[2], dtype="bfloat16", **QUICK).fit(X, s)
    assert next(net.module_.parameters()).dtype == torch.float32
    wide = make_net(propensity_attributes=[2], **QUICK).fit(X, s)
    assert not (net.predict_proba(X) == wide.predict_proba(X)).all()
    np.testing.assert_allclose(net.predict_proba(X), wide.predict_proba(X), atol=0.05)


# --- seeds, files, processes


def test_a_seed_determines_the_fit_and_not_the_global_state():
    X, s, *_ = rows(n=200)
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    net = make_net(propensity_attributes=[2], **QUICK).fit(X, s)
    assert torch.rand(1) == expected
    again = clone(net).fit(X, s)
    assert (net.predict_proba(X) == again.predict_proba(X)).all()
    other = clone(net).set_params(random_state=1).fit(X, s)
    assert not (net.predict_proba(X) == other.predict_proba(X)).all()


def test_a_pickled_model_predicts_the_same():
    X, s, *_ = rows(n=200)
    net = make_net(propensity_attributes=[2], **QUICK).fit(X, s)
    again = pickle.loads(pickle.dumps(net))
    assert (net.predict_proba(X) == again.predict_proba(X)).all()
    assert (net.predict_propensity(X) == again.predict_propensity(X)).all()


def run_killed(folder, step, out):
    program = [sys.executable, str(Path(killed_fit.__file__)), str(folder), str(step), str(out)]
    return subprocess.run(program, check=False, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    whole = run_killed(folder, 0, folder / "out.npy")
    assert whole.returncode == 0, whole.stderr
    return np.load(folder / "out.npy")


@pytest.mark.parametrize("step", [1, 7, 15])  # twice in the first start, and once in the second
def test_a_killed_fit_resumes_with_the_same_result(tmp_path, never_stopped, step):
    died = run_killed(tmp_path / "folder", step, tmp_path / "out.npy")
    assert died.returncode == -signal.SIGKILL
    assert not (tmp_path / "out.npy").exists()
    left = torch.load(tmp_path / "folder" / "network.pt", weights_only=True)
    assert len(left["history"]) == step - 1  # Finished epochs are not repeated.
    went_on = run_killed(tmp_path / "folder", 0, tmp_path / "out.npy")
    assert went_on.returncode == 0, went_on.stderr
    assert (np.load(tmp_path / "out.npy") == never_stopped).all()


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    X, s = killed_fit.rows()
    first = killed_fit.make(tmp_path, max_epochs=2).fit(X, s)
    again = killed_fit.make(tmp_path, max_epochs=2).fit(X, s)
    assert (first.predict_proba(X) == again.predict_proba(X)).all()
    with pytest.raises(ValueError, match="is from a fit of other rows or with other parameters"):
        killed_fit.make(tmp_path, max_epochs=2).fit(X[1:], s[1:])
    with pytest.raises(ValueError, match="is from a fit of other rows or with other parameters"):
        killed_fit.make(tmp_path, max_epochs=3).fit(X, s)
    (tmp_path / "network.pt").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is not a checkpoint of SARNetClassifier"):
        killed_fit.make(tmp_path, max_epochs=2).fit(X, s)


def test_a_damaged_checkpoint_warns_and_the_fit_starts_again(tmp_path):
    X, s = killed_fit.rows()
    whole = killed_fit.make(tmp_path, max_epochs=2).fit(X, s).predict_proba(X)
    data, rng = (tmp_path / "network.pt").read_bytes(), np.random.default_rng(0)
    changed = 0
    for place in rng.integers(len(data), size=30):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "network.pt").write_bytes(damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = killed_fit.make(tmp_path, max_epochs=2).fit(X, s).predict_proba(X)
        assert (found == whole).all()  # also if the byte is never read, such as a byte of a date in the zip file
        changed += any("network.pt is damaged. The fit starts again" in str(each.message) for each in caught)
    assert changed


def test_without_a_seed_a_checkpoint_stores_the_drawn_seed(tmp_path):
    X, s = killed_fit.rows()
    found = [
        killed_fit.make(tmp_path, max_epochs=2).set_params(random_state=None).fit(X, s).predict_proba(X) for _ in "ab"
    ]
    assert (found[0] == found[1]).all()


def test_nothing_else_imports_torch():
    code = "import sys, scarless; assert 'torch' not in sys.modules and 'skorch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", ["torch", "skorch"])
def test_a_missing_package_error_has_the_install_command(package):
    blocked = (
        "import sys\n"
        "class Nowhere:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {package!r}: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Nowhere())\n"
    )
    code = blocked + "import scarless.torch"
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert f'scarless.torch needs {package}: pip install "scarless[torch]".' in found.stderr


def test_verbose_prints_a_line_for_each_epoch(capsys):
    X, s, *_ = rows(n=100)
    make_net(**QUICK, verbose=True).fit(X, s)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == QUICK["max_epochs"]
    assert lines[0].startswith("SARNetClassifier: fold 1, start 1, epoch 1, held-out log-likelihood per row -0.")


# --- warnings and errors


def test_training_that_did_not_converge_warns():
    X, s, *_ = rows(n=100)
    with pytest.warns(ConvergenceWarning, match="did not converge in max_epochs=2 epochs"):
        make_net(**{**QUICK, "max_epochs": 2, "patience": 10}).fit(X, s)


def test_too_few_rows_to_hold_out_warn():
    X, s, *_ = rows(n=100)
    few = np.append(np.flatnonzero(s)[:1], np.flatnonzero(s == 0)[:20])
    with pytest.warns(
        UserWarning,
        match="validation_share=0.2: 1 labelled and 20 unlabelled rows are too few to have both kinds",
    ):
        make_net(**QUICK).fit(X[few], s[few])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"module": 3}, "module must be a torch.nn.Module, a class of modules, or a function .*; got 3"),
        ({"module": lambda n: n}, "module must return a torch.nn.Module; it returned 4"),
        ({"module": torch.nn.Linear(4, 2)}, r"module must return one logit for each row.* of shape \(\d+, 2\)"),
        ({"optimizer": "newton"}, "optimizer must be one of 'adamw', 'adam', 'sgd', 'lbfgs'; got 'newton'"),
        ({"optimizer": 1}, "optimizer must be one of adamw, adam, sgd, lbfgs, or a class of torch.optim; got 1"),
        ({"max_epochs": 0}, "max_epochs must be a whole number of at least 1; got 0"),
        ({"warm_up": -1}, "warm_up must be a whole number of at least 0; got -1"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1; got 0"),
        ({"lr": 0}, "lr must be a number above 0; got 0"),
        ({"validation_share": 1.5}, r"validation_share \(or 0\) must lie strictly between 0 and 1; got 1.5"),
        ({"dtype": "int8"}, "dtype must be one of 'float32', 'float64', 'bfloat16'; got 'int8'"),
        ({"device": "abacus"}, "device must be 'auto', 'cpu', 'cuda' or another device of torch; got 'abacus'"),
        (
            {"propensity_features": [1]},
            r"propensity_features must be a function of X; got \[1\]\. Pass an array",
        ),
        ({"n_starts": 0}, "n_starts must be a whole number of at least 1; got 0"),
        ({"known": PseudoObservations(4)}, r"known must be a list, such as \[ClassPrior"),
        ({"known": [ClassPrior(0.3)]}, r"SARNetClassifier accepts only PseudoObservations\(...\) in known"),
        ({"recalibrate": 2}, "recalibrate must be True, False, 'held-out' or 'out-of-fold'; got 2"),
        ({"lr": 1e30, "optimizer": "sgd"}, "The training loss is (nan|inf) in phase .* Lower lr"),
        (
            {"propensity_features": lambda X: X[:, 0], "propensity_attributes": [1]},
            "The inputs of the propensity were specified more than once",
        ),
        (
            {"propensity_features": lambda X: X[1:, 0]},
            "propensity_features must have one row for each of the 100 rows of X; it has 99",
        ),
        (
            {"propensity_features": lambda X: X[:, :, None]},
            r"propensity_features must have one value or vector .*; the shape of a row is \(4, 1\)",
        ),
    ],
)
def test_errors_say_what_to_do(options, message):
    X, s, *_ = rows(n=100)
    with pytest.raises(ValueError, match=message):
        make_net(**{**QUICK, **options}).fit(X, s)


def test_training_is_an_object():
    X, s, *_ = rows(n=100)
    with pytest.raises(ValueError, match=r"training must be a NetTraining\(...\), or None; got {'lr': 0.01}"):
        SARNetClassifier(training={"lr": 0.01}).fit(X, s)


def test_a_grid_search_reaches_into_training():
    X, s, *_ = rows(n=200)
    model = make_net(linear, propensity_attributes=[2], **QUICK)
    search = GridSearchCV(model, {"training__lr": [1e-6, 0.05], "recalibrate": [False]}, cv=2).fit(X, s)
    assert search.best_params_["training__lr"] == 0.05
    assert search.best_estimator_.training.lr == 0.05
    assert model.training.lr == NetTraining().lr  # A clone was changed, not this object.


def test_known_accepts_pseudo_observations():
    X, s, *_ = rows(n=200)
    plain, same, many = (
        make_net(linear, propensity_attributes=[2], known=known, **QUICK).fit(X, s)
        for known in (None, [PseudoObservations(4)], [PseudoObservations(400)])
    )
    assert plain.label_frequency_ == same.label_frequency_
    assert abs(many.label_frequency_ - 0.5) < abs(plain.label_frequency_ - 0.5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_missing_gpu_is_refused():
    X, s, *_ = rows(n=100)
    with pytest.raises(ValueError, match="device='cuda' is not available: torch finds no GPU"):
        make_net(device="cuda").fit(X, s)


def test_errors_of_images_and_predictions():
    X, s, *_ = images(100)
    with pytest.raises(ValueError, match=r"propensity_attributes need columns, but X has rows of shape \(1, 8, 8\)"):
        make_net(propensity_attributes=[0]).fit(X, s)
    net = make_net(**QUICK).fit(X, s, propensity_features=brightness(X))
    with pytest.raises(ValueError, match="propensity_features was passed to fit as an array, so it is needed"):
        net.predict_propensity(X)
    with pytest.raises(
        ValueError, match=r"X must have rows of shape \(1, 8, 8\), as in the fit; they have shape \(8, 8\)"
    ):
        net.predict_proba(X[:, 0])
    with pytest.raises(TypeError, match="missing 1 required positional argument: 's'"):
        net.predict_posterior(X)
    net = make_net(**QUICK).fit(X, s)
    with pytest.raises(ValueError, match="propensity_features was not passed to fit, so it cannot be passed here"):
        net.predict_propensity(X, propensity_features=brightness(X))
