"""You hold a result you do not believe: what was compared, how it was computed, and in which direction."""
