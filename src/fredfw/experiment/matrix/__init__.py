"""All cells of an experiment together: speed-ups, savings, fits, and how sure they are."""
