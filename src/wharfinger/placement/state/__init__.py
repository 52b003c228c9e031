"""What a hub has seen of members, placements and records, and the questions that follow from it."""
