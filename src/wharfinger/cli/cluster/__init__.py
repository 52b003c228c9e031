"""`wharfinger cluster`: the member clusters that placements are placed on."""
