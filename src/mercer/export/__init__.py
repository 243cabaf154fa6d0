"""Fitted models for other programs: ONNX files, and LIBSVM's text files both ways."""

from mercer.export.libsvm import from_libsvm, to_libsvm
from mercer.export.onnx import export_onnx

__all__ = ["export_onnx", "from_libsvm", "to_libsvm"]
