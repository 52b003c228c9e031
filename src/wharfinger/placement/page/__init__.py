"""The page's views of placements, members and update runs."""
