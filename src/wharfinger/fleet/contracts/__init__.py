"""What workflows, activities and records of fleets carry. Fields are added with defaults, never renamed."""
