"""Models as files: without code, and as ONNX graphs."""

from scarless.saved.onnx import save_onnx, to_onnx
from scarless.saved.persistence import ModelFileError, load, save

__all__ = ["ModelFileError", "load", "save", "save_onnx", "to_onnx"]
