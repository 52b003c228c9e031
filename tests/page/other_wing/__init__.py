"""A wing with one view, which only tests register."""
