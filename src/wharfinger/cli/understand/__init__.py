"""Commands that explain: describe, explain, pending, simulate, capacity and workflow-id."""
