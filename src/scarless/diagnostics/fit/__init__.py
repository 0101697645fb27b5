"""Diagnostics of one fit and its table, as numbers; `scarless.report` turns them into pages."""
