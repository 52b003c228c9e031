"""Prometheus' rules that are states, evaluated on what the page sees and reads."""
