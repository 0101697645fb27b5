"""Methods of the field for positive and unlabelled data, for comparisons; each makes an assumption of its own."""

__all__: list[str] = []
