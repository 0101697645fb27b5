"""Specification, methods and questions of the comparison of the field's methods with ours."""
