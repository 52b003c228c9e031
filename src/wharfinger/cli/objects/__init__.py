"""Commands that write and read objects: apply, get and delete."""
