"""Activities: implementations of the contracts, the effects of workflows on the world."""
