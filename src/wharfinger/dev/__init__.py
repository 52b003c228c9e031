"""Embedded servers and workers as one supervised tree."""
