"""Builder of an ONNX graph, and its last part: from prepared numbers to class, probability and propensity."""

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
OPSETS = {"": 20, "ai.onnx.ml": 3}  # opset 20 is the oldest with regular expressions, which find blank text
IR_VERSION = 9  # oldest version of the file format with these operators; runtimes refuse versions that are too new
ROWS = "rows"  # name of the variable dimension
OUTPUTS = ("label", "probability", "propensity", "posterior_unlabelled")
_PREFIX = "_scarless/"  # prefix of the names inside a graph
# Classifiers that estimate the propensity by a logistic model, and classifiers that do not.
PAIRS = (SAREMClassifier, SAREMClassifierCV, PublishedEMClassifier)
KNOWN = (SCARClassifier, PropensityWeightedClassifier, NaiveClassifier)
_LABEL_TYPES = {"i": ("int64", np.int64), "u": ("int64", np.int64), "b": ("bool", np.bool_), "f": ("double", float)}


class GraphInput(NamedTuple):
    """An input of a graph."""

    name: str
    kind: str  # numbers, number, duration, date, text
    type: str  # double, int64, string
    missing: str | None  # value that means missing; None if there must be no missing values
    how: str  # description for users
    columns: tuple[str, ...] = ()  # names of the columns, if the input is a whole table

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns) or 1

    def metadata(self) -> dict[str, Any]:
        """Return the description in the metadata of the graph."""
        found = {"name": self.name, "kind": self.kind, "type": self.type, "missing": self.missing, "how": self.how}
        return found | ({"columns": list(self.columns)} if self.columns else {})


class Graph:
    """Builder of a graph. Tensors are referred to by name; numbers become constants."""

    def __init__(self) -> None:
        self.onnx = need("onnx", USER, EXTRA)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[GraphInput] = []
        self._outputs: list[Any] = []
        self._meanings: dict[str, str] = {}

    def add(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        given = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        name = f"{_PREFIX}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, given, [name], name, domain=domain, **attributes))
        return name

    def cast(self, tensor: str, kind: str) -> str:
        """Return the tensor as double, float (single precision), int64 or bool."""
        return self.add("Cast", tensor, to=getattr(self.onnx.TensorProto, kind.upper()))

    def input(self, given: GraphInput) -> str:
        """Add an input, and return its name."""
        if not given.name or given.name in OUTPUTS or given.name.startswith(_PREFIX):
            raise ModelFileError(
                f"Column {given.name!r} cannot be an input of the graph: its name is empty or reserved (reserved are "
                f"{', '.join(OUTPUTS)}, and names that begin with {_PREFIX}). Rename the column and fit again."
            )
        self.inputs.append(given)
        return given.name

    def output(self, tensor: str, name: str, kind: str, meaning: str) -> None:
        """Make a tensor with one value for each row an output of the graph."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [tensor], [name], f"{_PREFIX}{len(self.nodes)}"))
        self._outputs.append(self._value(name, kind, [ROWS], meaning))
        self._meanings[name] = meaning

    def include(self, model: Any, inputs: list[str]) -> str:
        """Add all nodes of another graph with these tensors as inputs, and return the name of its first output."""
        prefix = f"{_PREFIX}{len(self.nodes)}/"
        graph = self.onnx.compose.add_prefix(model, prefix).graph
        for given, wanted in zip(inputs, graph.input, strict=True):
            self.nodes.append(self.onnx.helper.make_node("Identity", [given], [wanted.name], f"{wanted.name}/in"))
        self.nodes += list(graph.node)
        self.constants += list(graph.initializer)
        return str(graph.output[0].name)

    def model(self, doc: str, metadata: dict[str, Any]) -> Any:
        """Return the checked ModelProto; `metadata` are stored in it, with descriptions of inputs and outputs."""
        helper = self.onnx.helper
        inputs = [self._value(each.name, each.type, [ROWS, each.width], each.how) for each in self.inputs]
        graph = helper.make_graph(self.nodes, "scarless", inputs, self._outputs, self.constants, doc_string=doc)
        opsets = [helper.make_opsetid(domain, number) for domain, number in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, doc_string=doc)
        model.producer_name, model.producer_version = "scarless", version("scarless")
        found = {"scarless": version("scarless"), **metadata, "inputs": [each.metadata() for each in self.inputs]}
        helper.set_model_props(model, {"scarless": json.dumps(found | {"outputs": self._meanings})})
        self.onnx.checker.check_model(model, full_check=True)
        return model

    def _constant(self, values: Any) -> str:
        array: NDArray[Any] = np.asarray(values)
        name = f"{_PREFIX}constant/{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def _value(self, name: str, kind: str, shape: list[Any], doc: str) -> Any:
        element = getattr(self.onnx.TensorProto, kind.upper())
        return self.onnx.helper.make_tensor_value_info(name, element, shape, doc_string=doc)


# --- from prepared numbers to outputs


class OnnxLogit(NamedTuple):
    """Coefficients of one logistic model."""

    coef: Vector
    intercept: float


class OnnxLinear(NamedTuple):
    """Parameters of a fitted classifier that the graph needs."""

    classifier: OnnxLogit
    propensity: OnnxLogit | float | None  # a number if the propensity is constant
    classes: NDArray[Any]  # the negative class first
    name: str

    @property
    def n_columns(self) -> int:
        """Number of columns that the classifier reads."""
        return self.classifier.coef.size


def read_classifier(model: Any) -> OnnxLinear:
    """Return the parameters of a fitted logistic classifier; raise for any other model."""
    kind = type(model)
    if kind not in (*PAIRS, *KNOWN):
        what = "does not consist of logistic models" if isinstance(model, PUClassifier) else "is not one of these"
        known = ", ".join(each.__name__ for each in (*PAIRS, *KNOWN))
        raise ModelFileError(
            f"Only logistic classifiers can be written as ONNX ({known}, alone, in a Pipeline or a TableClassifier); "
            f"{kind.__name__} {what}. Fit one of these classifiers, or store this model with scarless.save."
        )
    looks = looks_of(model)
    if looks is not None and not looks.plain:
        raise ModelFileError(
            f"ONNX supports models with one label for each row; this {kind.__name__} was fitted with "
            f"{looks.description}. Store this model with scarless.save."
        )
    for parameter in ("estimator", "propensity_estimator"):
        foreign = getattr(model, parameter, None)
        if foreign is not None:
            raise ModelFileError(
                f"{kind.__name__} with {parameter}={type(foreign).__name__} cannot be written as ONNX, because only "
                f"logistic models can. Leave {parameter} out and fit again, or store this model with scarless.save."
            )
    classifier, *propensity = _logits_of(model)
    frequency = float(model.label_frequency_) if isinstance(model, SCARClassifier) else None
    return OnnxLinear(classifier, propensity[0] if propensity else frequency, _classes(model), kind.__name__)


def _logits_of(model: Any) -> list[OnnxLogit]:
    """Return the logistic models of class and propensity, or of the class only."""
    pair = getattr(model, "fitted_pair_", None)
    if pair is None:
        return [OnnxLogit(np.asarray(model.coef_[0], dtype=np.float64), float(model.intercept_[0]))]
    found = []
    for design, place in zip(pair.objective.designs[:2], pair.objective.places[:2], strict=True):
        coef = np.zeros(model.n_features_in_)
        coef[design.columns] = pair.parameters[place][:-1]
        found.append(OnnxLogit(coef, float(pair.parameters[place][-1])))
    return found


def _classes(model: Any) -> NDArray[Any]:
    coding = model.label_coding_
    return np.asarray(coding.classes)[[1 - coding.positive, coding.positive]]


def add_outputs(graph: Graph, X: str, model: OnnxLinear, largest: float) -> None:
    """Add the outputs of the model for rows of prepared numbers, in double precision."""
    # The Python model refuses numbers above `largest`. Here they become NaN, so that the probability is NaN.
    too_large = graph.add("Greater", graph.add("Abs", X), np.float64(largest))
    X = graph.add("Where", too_large, np.float64("nan"), X)
    u = _logit(graph, X, model.classifier)
    f = _sigmoid(graph, u)
    _add_label(graph, f, model.classes)
    positive = model.classes[1]
    meaning = f"Pr(y=1|x): probability that the class is {positive!s}, given the attributes."
    graph.output(f, "probability", "double", meaning)
    if model.propensity is None:
        return
    if isinstance(model.propensity, OnnxLogit):
        v = _logit(graph, X, model.propensity)
        e, q = _sigmoid(graph, v), _sigmoid(graph, graph.add("Sub", u, _softplus(graph, v)))
    else:
        e = graph.add("Expand", np.float64(model.propensity), graph.add("Shape", f))
        q = _posterior_known(graph, f, e)
    meaning = "e(x) = Pr(s=1|y=1,x): probability that a positive row with these attributes is labelled."
    graph.output(e, "propensity", "double", meaning)
    meaning = "Pr(y=1|x,s=0): probability that the row is positive if it is unlabelled. (A labelled row is positive.)"
    graph.output(q, "posterior_unlabelled", "double", meaning)


def _logit(graph: Graph, X: str, model: OnnxLogit) -> str:
    # A matrix with one column, because ONNX Runtime refuses to multiply a table without rows by a vector.
    column = graph.add("MatMul", X, model.coef[:, None])
    return graph.add("Add", graph.add("Squeeze", column, np.array([1])), np.float64(model.intercept))


def _sigmoid(graph: Graph, z: str) -> str:
    """Return 1/(1+exp(-z)), which is accurate in both tails; exp may overflow, and the result is then 0."""
    return graph.add("Div", np.float64(1.0), graph.add("Add", graph.add("Exp", graph.add("Neg", z)), np.float64(1.0)))


def _softplus(graph: Graph, z: str) -> str:
    """Return log(1+exp(z)).

    The posterior logit of an unlabelled row is the logit of its class minus the softplus of its propensity's logit.
    """
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", z)))
    return graph.add("Add", graph.add("Relu", z), graph.add("Log", graph.add("Add", small, np.float64(1.0))))


def _posterior_known(graph: Graph, f: str, e: str) -> str:
    """Return f(1-e)/(1-fe), as `scarless.numerics.likelihood.posterior_known` does."""
    one = np.float64(1.0)
    missed = graph.add("Mul", f, graph.add("Sub", one, e))
    unlabelled = graph.add("Add", graph.add("Sub", one, f), missed)
    q = graph.add("Where", graph.add("Equal", unlabelled, np.float64(0.0)), one, graph.add("Div", missed, unlabelled))
    # If e is 1, no positive is unlabelled: the posterior is 0, or NaN if f is NaN.
    return graph.add("Where", graph.add("Equal", e, one), missed, q)


def _add_label(graph: Graph, f: str, classes: NDArray[Any]) -> None:
    kind, dtype = _LABEL_TYPES.get(classes.dtype.kind, ("string", object))
    values = np.array([str(each) for each in classes], dtype=object) if dtype is object else classes.astype(dtype)
    place = graph.cast(graph.add("Greater", f, np.float64(0.5)), "int64")
    graph.output(graph.add("Gather", values, place), "label", kind, "The more probable class.")
