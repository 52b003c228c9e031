"""The bind: what commits the placements of a lone pod, a group or a gang."""
