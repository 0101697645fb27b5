"""Logistic models with their preparation as ONNX graphs, to be asked where there is no Python."""

from scarless.saved.onnx.export import save_onnx, to_onnx

__all__ = ["save_onnx", "to_onnx"]
