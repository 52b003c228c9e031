"""Answers about placements: status, conditions, plans, goals and what if."""
