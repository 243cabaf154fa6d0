"""ONNX graphs, built node by node: names are given here, constants are kept once."""

from typing import Any

import numpy as np

__all__ = ["OPSET", "Graph", "import_onnx"]

OPSET = 18  # of 2022: reductions take their axes as an input, and double is known to all that is used here
IR_VERSION = 8  # the file format that came with it
LARGEST = 2**31 - 1  # bytes of a protocol buffer


def import_onnx():
    """The package `onnx`, or the command that installs it."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError('export_onnx needs the package onnx: pip install "mercer[onnx]"') from error
    return onnx


class Graph:
    """Nodes of a graph in one precision. Values are known by their names; `inside` makes the body of a loop."""

    def __init__(self, dtype, outer: "Graph | None" = None):
        self.onnx = import_onnx()
        self.dtype = np.dtype(dtype)
        self.outer = outer
        self.nodes: list = []
        self.inputs: list = []
        self.constants: dict[Any, Any] = {} if outer is None else outer.constants
        self.count: list[int] = [0] if outer is None else outer.count

    # ------------------------------------------------------------------------------------ values
    def name(self, word) -> str:
        self.count[0] += 1
        return f"{word}_{self.count[0]}"

    def add(self, op: str, *inputs, **attributes) -> str:
        """A node; inputs are names, or numbers, which become constants. Returns the name of its result."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        result = self.name(op)
        self.nodes.append(self.onnx.helper.make_node(op, names, [result], **attributes))
        return result

    def constant(self, value, dtype=None) -> str:
        """Numbers in the precision of the graph, or of another dtype."""
        array = np.ascontiguousarray(np.asarray(value), dtype or self.dtype)
        array = array.reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = self.onnx.numpy_helper.from_array(array, self.name("constant"))
        return self.constants[key].name

    def texts(self, values) -> str:
        """A constant of strings."""
        data = [v.encode() for v in values]
        made = self.onnx.helper.make_tensor(self.name("labels"), self.onnx.TensorProto.STRING, [len(data)], data)
        self.constants[made.name] = made
        return made.name

    def indices(self, values) -> str:
        return self.constant(values, np.int64)

    # ------------------------------------------------------------------------------------ common steps
    def sum(self, x, axis=1, keep=True) -> str:
        return self.add("ReduceSum", x, self.indices([axis]), keepdims=int(keep))

    def where(self, condition, a, b) -> str:
        return self.add("Where", condition, a, b)

    def cos(self, x) -> str:
        """Cosine; in float64 as a sine, since older releases of onnxruntime have no other."""
        return self.add("Cos", x) if self.dtype == np.float32 else self.add("Sin", self.add("Add", x, np.pi / 2))

    def columns(self, x, chosen) -> str:
        return self.add("Gather", x, self.indices(chosen), axis=1)

    def column(self, x) -> str:
        """(m, 1) as (m,)."""
        return self.add("Squeeze", x, self.indices([1]))

    def filled(self, value, like, n) -> str:
        """(m, n) of one number, m the rows of `like`."""
        m = self.add("Gather", self.add("Shape", like), self.indices([0]))
        return self.add("Expand", value, self.add("Concat", m, self.indices([n]), axis=0))

    # ------------------------------------------------------------------------------------ loops and files
    def inside(self) -> "Graph":
        return Graph(self.dtype, self)

    def body(self, name, outputs):
        """This graph as the body of a loop over matrices; constants belong to the whole."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        # Older releases of onnxruntime want the number of dimensions.
        ends = [self.onnx.helper.make_tensor_value_info(o, kind, [None, None]) for o in outputs]
        return self.onnx.helper.make_graph(self.nodes, name, self.inputs, ends)

    def argument(self, word, shape=None, dtype=None) -> str:
        """A new input."""
        name = word if self.outer is None else self.name(word)
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def model(self, name, outputs, about: dict[str, str]):
        """The whole as a checked model. outputs: {name: (value, dtype, shape)}."""
        helper, ends = self.onnx.helper, []
        for end, (value, dtype, shape) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [end]))
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            ends.append(helper.make_tensor_value_info(end, kind, shape))
        self._check_size()
        graph = helper.make_graph(self.nodes, name, self.inputs, ends, list(self.constants.values()))
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="mercer"
        )
        helper.set_model_props(made, about)
        self.onnx.checker.check_model(made)
        return made

    def _check_size(self):
        size = sum(t.ByteSize() for t in self.constants.values())
        if size > LARGEST - 10**6:
            raise ValueError(
                f"the constants take {size / 1e9:.3g} GB, and an ONNX file holds at most 2 GB; use float32, or mercer.compress"
            )
