"""Workflows: orchestration only, one workflow a file. They reach contracts, model and errors, nothing else."""
