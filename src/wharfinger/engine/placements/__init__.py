"""What decides placements: what a hub has seen, the question that follows from it, and the commit of the answer."""
