"""Commits decisions of placements, writes works, and keeps snapshots of what is selected."""
