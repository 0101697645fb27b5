"""One word for one thing, read from the public signatures."""

import importlib
import inspect
import re

import pytest

ROOMS = ("", ".datasets", ".diagnostics", ".engines", ".experiments", ".label_frequency", ".labelling", ".metrics")
ROOMS = (*ROOMS, ".models", ".report")


def public_names():
    """Return every public class and function once, by name."""
    modules = [importlib.import_module(f"scarless{room}") for room in ROOMS]
    return {name: getattr(module, name) for module in modules for name in module.__all__}


def public_calls():
    """Return whatever a user may call and Python knows the signature of."""
    calls = {}
    for name, value in public_names().items():
        methods = [key for key in dir(value) if not key.startswith("_")] if inspect.isclass(value) else []
        found = {name: value, **{f"{name}.{key}": getattr(value, key) for key in methods}}
        for call, function in found.items():
            ours = (getattr(function, "__module__", None) or "").startswith("scarless")
            if callable(function) and ours and not _is_exception_or_enum(function):
                calls[call] = inspect.signature(function)
    return calls


def _is_exception_or_enum(value):
    return inspect.isclass(value) and (issubclass(value, BaseException) or hasattr(value, "__members__"))


CALLS = public_calls()


@pytest.mark.parametrize("call", CALLS)
def test_a_signature_reads_well_in_help(call):
    """NumPy's ArrayLike, written out, takes 300 characters: a signature of six such arguments filled a screen."""
    shown = str(CALLS[call])
    assert len(shown) <= 60 + 50 * len(CALLS[call].parameters), shown
    assert len(shown) <= 650, shown
    assert not re.search(r"\b_[a-z]", shown), f"something private: {shown}"
    assert " at 0x" not in shown, f"a place in memory: {shown}"


def test_an_array_is_called_an_array():
    assert "s: ArrayLike" in str(CALLS["scar_test"])
    assert "sample_weight: ArrayLike | None = None" in str(CALLS["scar_test"])
    assert str(CALLS["SAREMClassifier.predict_propensity"]) == "(self, X: Any) -> Vector"


@pytest.mark.parametrize("call", CALLS)
def test_one_word_for_an_estimator_of_the_users(call):
    """It is `estimator`, `propensity_estimator` where there are two, `estimators` where there is a list."""
    others = {"classifier", "clf", "base_estimator", "model", "learner", "propensity_model", "classifiers", "models"}
    assert not others & set(CALLS[call].parameters)
