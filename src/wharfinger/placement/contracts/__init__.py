"""What workflows, activities and records of placements carry, and their keys.

Fields are added with defaults, never renamed: releases read each other's.
"""
