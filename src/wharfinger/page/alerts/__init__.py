"""The alerts of the operations guide, evaluated on what the page sees and reads."""
