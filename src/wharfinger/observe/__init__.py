"""What people and monitors look at: health endpoints, explanations."""
