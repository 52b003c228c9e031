"""Commands that write and read objects: apply, get, describe and delete."""
