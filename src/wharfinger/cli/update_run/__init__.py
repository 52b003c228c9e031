"""Commands about staged update runs of placements."""
