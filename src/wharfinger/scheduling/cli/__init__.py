"""Commands about pods and attempts: describe, explain, pending and workflow-id."""
