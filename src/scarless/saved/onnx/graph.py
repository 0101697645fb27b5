"""A graph while it is being built: nodes, constants, inputs, outputs, and what is to be said of each."""

import json
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.outside.extras import need
from scarless.saved.model_file import ModelFileError

USER = "Writing a model as ONNX"
EXTRA = "onnx"
OPSETS = {"": 20, "ai.onnx.ml": 3}  # the first is the oldest that tells blank text by a pattern
IR_VERSION = 9  # of the file format, as old as the operators allow: runtimes refuse newer ones than they know
ROWS = "rows"  # how the number of rows, which is open, is called
OUTPUTS = ("label", "probability", "propensity", "posterior_unlabelled")
_OURS = "_scarless/"  # what names inside a graph begin with


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
