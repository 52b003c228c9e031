"""Answers about fleets, and changes of them: plans, status, goals, templates."""
