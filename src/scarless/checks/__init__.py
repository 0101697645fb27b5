"""What users hand over, checked: tables, labels, attributes, vectors, options."""
