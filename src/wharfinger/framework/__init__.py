"""The scheduling language: extension points, status, snapshot, catalog, and the runner of a profile."""
