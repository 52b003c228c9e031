"""`wharfinger replay` and `wharfinger archive`."""
