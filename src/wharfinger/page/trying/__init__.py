"""Decisions on the present state that change nothing: *what if*, what would help, why a gang fits nowhere."""
