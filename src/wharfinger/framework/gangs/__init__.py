"""Gangs: where the pods of one are placed together, and how their plugins decide it."""
