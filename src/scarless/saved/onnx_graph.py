"""An ONNX graph: the builder of its nodes, and its end: from prepared numbers to class, probability and propensity."""

import json
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.checks.looks import looks_of
from scarless.models import PUClassifier
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.published_em import PublishedEMClassifier
from scarless.models.sar_em import SAREMClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.scar import NaiveClassifier, SCARClassifier
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.saved.files import ModelFileError

USER = "Writing a model as ONNX"
EXTRA = "onnx"
OPSETS = {"": 20, "ai.onnx.ml": 3}  # the first is the oldest that tells blank text by a pattern
IR_VERSION = 9  # of the file format, as old as the operators allow: runtimes refuse newer ones than they know
ROWS = "rows"  # how the number of rows, which is open, is called
OUTPUTS = ("label", "probability", "propensity", "posterior_unlabelled")
_OURS = "_scarless/"  # what names inside a graph begin with
PAIRS = (SAREMClassifier, SAREMClassifierCV, PublishedEMClassifier)
KNOWN = (SCARClassifier, PropensityWeightedClassifier, NaiveClassifier)
_LABEL_TYPES = {"i": ("int64", np.int64), "u": ("int64", np.int64), "b": ("bool", np.bool_), "f": ("double", float)}


class Input(NamedTuple):
    """What a graph wants to be given under one name."""

    name: str
    kind: str  # numbers, number, duration, date, text
    type: str  # double, int64, string
    missing: str | None  # how a missing value is written; None where there must be none
    how: str  # in a sentence
    columns: tuple[str, ...] = ()  # of a table in one tensor, in order

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns) or 1

    def facts(self) -> dict[str, Any]:
        """Return what the stamp says of it."""
        told = {"name": self.name, "kind": self.kind, "type": self.type, "missing": self.missing, "how": self.how}
        return told | ({"columns": list(self.columns)} if self.columns else {})


class Graph:
    """Nodes under construction. Names of tensors are passed around; numbers become constants."""

    def __init__(self) -> None:
        self.onnx = need("onnx", USER, EXTRA)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Input] = []
        self._outputs: list[Any] = []
        self._meanings: dict[str, str] = {}

    def add(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return the name of that."""
        given = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        name = f"{_OURS}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, given, [name], name, domain=domain, **attributes))
        return name

    def cast(self, tensor: str, kind: str) -> str:
        """Return the tensor as double, float (single precision), int64 or bool."""
        return self.add("Cast", tensor, to=getattr(self.onnx.TensorProto, kind.upper()))

    def input(self, wanted: Input) -> str:
        """Add an input, and return its name."""
        if not wanted.name or wanted.name in OUTPUTS or wanted.name.startswith(_OURS):
            raise ModelFileError(
                f"The column {wanted.name!r} cannot be an input of the graph: that is no name there, or one of its "
                f"outputs ({', '.join(OUTPUTS)}). Rename the column and fit again."
            )
        self.inputs.append(wanted)
        return wanted.name

    def output(self, tensor: str, name: str, kind: str, meaning: str) -> None:
        """Have a tensor with one value a row come out under a name."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [tensor], [name], f"{_OURS}{len(self.nodes)}"))
        self._outputs.append(self._value(name, kind, [ROWS], meaning))
        self._meanings[name] = meaning

    def include(self, model: Any, inputs: list[str]) -> str:
        """Add all nodes of another graph, fed by these tensors, and return the name of its first output."""
        prefix = f"{_OURS}{len(self.nodes)}/"
        graph = self.onnx.compose.add_prefix(model, prefix).graph
        for given, wanted in zip(inputs, graph.input, strict=True):
            self.nodes.append(self.onnx.helper.make_node("Identity", [given], [wanted.name], f"{wanted.name}/in"))
        self.nodes += list(graph.node)
        self.constants += list(graph.initializer)
        return str(graph.output[0].name)

    def model(self, doc: str, facts: dict[str, Any]) -> Any:
        """Return the checked ModelProto; `facts` go into its stamp, beside inputs and outputs."""
        helper = self.onnx.helper
        inputs = [self._value(each.name, each.type, [ROWS, each.width], each.how) for each in self.inputs]
        graph = helper.make_graph(self.nodes, "scarless", inputs, self._outputs, self.constants, doc_string=doc)
        opsets = [helper.make_opsetid(domain, number) for domain, number in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, doc_string=doc)
        model.producer_name, model.producer_version = "scarless", version("scarless")
        stamp = {"scarless": version("scarless"), **facts, "inputs": [each.facts() for each in self.inputs]}
        helper.set_model_props(model, {"scarless": json.dumps(stamp | {"outputs": self._meanings})})
        self.onnx.checker.check_model(model, full_check=True)
        return model

    def _constant(self, values: Any) -> str:
        array: NDArray[Any] = np.asarray(values)
        name = f"{_OURS}constant/{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def _value(self, name: str, kind: str, shape: list[Any], doc: str) -> Any:
        element = getattr(self.onnx.TensorProto, kind.upper())
        return self.onnx.helper.make_tensor_value_info(name, element, shape, doc_string=doc)


# --- from prepared numbers to answers


class Line(NamedTuple):
    """One logistic model."""

    coef: Vector
    intercept: float


class Linear(NamedTuple):
    """What a fitted classifier says, as numbers: two lines, or one with a constant propensity or without any."""

    classifier: Line
    propensity: Line | float | None
    classes: NDArray[Any]  # the negative one first
    name: str

    @property
    def n_columns(self) -> int:
        """Number of columns that the classifier reads."""
        return self.classifier.coef.size


def read_classifier(model: Any) -> Linear:
    """Return the numbers of a fitted logistic classifier, or refuse any other model by name."""
    kind = type(model)
    if kind not in (*PAIRS, *KNOWN):
        what = "is not made of two logistic models" if isinstance(model, PUClassifier) else "is not one of these"
        known = ", ".join(each.__name__ for each in (*PAIRS, *KNOWN))
        raise ModelFileError(
            f"Only logistic classifiers are written as ONNX ({known}, alone, in a Pipeline or a TableClassifier); "
            f"{kind.__name__} {what}. Fit one of them, or keep this model with scarless.save."
        )
    looks = looks_of(model)
    if looks is not None and not looks.plain:
        raise ModelFileError(
            f"An ONNX file answers for one label of each row, and this {kind.__name__} was fitted with {looks.told}. "
            "Keep this model with scarless.save."
        )
    for parameter in ("estimator", "propensity_estimator"):
        foreign = getattr(model, parameter, None)
        if foreign is not None:
            raise ModelFileError(
                f"{kind.__name__} with {parameter}={type(foreign).__name__} is not written as ONNX: only its logistic "
                f"models are. Leave {parameter} out and fit again, or keep this model with scarless.save."
            )
    classifier, *propensity = _lines(model)
    frequency = float(model.label_frequency_) if isinstance(model, SCARClassifier) else None
    return Linear(classifier, propensity[0] if propensity else frequency, _classes(model), kind.__name__)


def _lines(model: Any) -> list[Line]:
    """Return the logistic models of class and propensity, or of the class alone."""
    pair = getattr(model, "fitted_pair_", None)
    if pair is None:
        return [Line(np.asarray(model.coef_[0], dtype=np.float64), float(model.intercept_[0]))]
    found = []
    for design, place in zip(pair.objective.designs[:2], pair.objective.places[:2], strict=True):
        coef = np.zeros(model.n_features_in_)
        coef[design.columns] = pair.parameters[place][:-1]
        found.append(Line(coef, float(pair.parameters[place][-1])))
    return found


def _classes(model: Any) -> NDArray[Any]:
    coding = model.label_coding_
    return np.asarray(coding.classes)[[1 - coding.positive, coding.positive]]


def add_answers(graph: Graph, X: str, model: Linear, largest: float) -> None:
    """Add all that the model says of rows of prepared numbers, in double precision."""
    # A number that ours refuses must not end as a probability: it becomes NaN, which every product keeps.
    refused = graph.add("Greater", graph.add("Abs", X), np.float64(largest))
    X = graph.add("Where", refused, np.float64("nan"), X)
    u = _logit(graph, X, model.classifier)
    f = _sigmoid(graph, u)
    _add_label(graph, f, model.classes)
    positive = model.classes[1]
    graph.output(f, "probability", "double", f"Pr(y=1|x): that the true class is {positive!s}, by attributes alone.")
    if model.propensity is None:
        return
    if isinstance(model.propensity, Line):
        v = _logit(graph, X, model.propensity)
        e, q = _sigmoid(graph, v), _sigmoid(graph, graph.add("Sub", u, _softplus(graph, v)))
    else:
        e = graph.add("Expand", np.float64(model.propensity), graph.add("Shape", f))
        q = _posterior_known(graph, f, e)
    graph.output(e, "propensity", "double", "e(x) = Pr(s=1|y=1,x): that a positive row like this one is labelled.")
    graph.output(
        q,
        "posterior_unlabelled",
        "double",
        "Pr(y=1|x,s=0): that the row is positive, given that it was not labelled; of a labelled row it is 1.",
    )


def _logit(graph: Graph, X: str, line: Line) -> str:
    column = graph.add("MatMul", X, line.coef[:, None])  # by a vector, ONNX Runtime refuses a table without rows
    return graph.add("Add", graph.add("Squeeze", column, np.array([1])), np.float64(line.intercept))


def _sigmoid(graph: Graph, z: str) -> str:
    """Return 1/(1+exp(-z)): exact to the last digits in both tails; exp may overflow, which makes it 0."""
    return graph.add("Div", np.float64(1.0), graph.add("Add", graph.add("Exp", graph.add("Neg", z)), np.float64(1.0)))


def _softplus(graph: Graph, z: str) -> str:
    """Return log(1+exp(z)), by which missing a label lowers the class's logit."""
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", z)))
    return graph.add("Add", graph.add("Relu", z), graph.add("Log", graph.add("Add", small, np.float64(1.0))))


def _posterior_known(graph: Graph, f: str, e: str) -> str:
    """Return f(1-e)/(1-fe), as `scarless.numerics.likelihood.posterior_known` does."""
    one = np.float64(1.0)
    missed = graph.add("Mul", f, graph.add("Sub", one, e))
    unlabelled = graph.add("Add", graph.add("Sub", one, f), missed)
    q = graph.add("Where", graph.add("Equal", unlabelled, np.float64(0.0)), one, graph.add("Div", missed, unlabelled))
    # Where a known e is 1 there is no missed positive: 0, or NaN where f is.
    return graph.add("Where", graph.add("Equal", e, one), missed, q)


def _add_label(graph: Graph, f: str, classes: NDArray[Any]) -> None:
    kind, dtype = _LABEL_TYPES.get(classes.dtype.kind, ("string", object))
    values = np.array([str(each) for each in classes], dtype=object) if dtype is object else classes.astype(dtype)
    place = graph.cast(graph.add("Greater", f, np.float64(0.5)), "int64")
    graph.output(graph.add("Gather", values, place), "label", kind, "The more probable class of the row.")
