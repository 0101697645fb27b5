"""Model files: files without code, and ONNX graphs."""

from scarless.saved.files import ModelFileError, load, save
from scarless.saved.onnx_export import save_onnx, to_onnx

__all__ = ["ModelFileError", "load", "save", "save_onnx", "to_onnx"]
