"""`wharfinger placement`: which member clusters placements get."""
