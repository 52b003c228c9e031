"""Commands that tell why: describe, explain, pending, simulate, capacity and workflow-id."""
