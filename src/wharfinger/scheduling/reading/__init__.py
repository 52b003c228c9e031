"""Answers about attempts: explanations, histories, assignments, and runs that are started by hand."""
