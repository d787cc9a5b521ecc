"""Studies: a space of configurations of one experiment, and the search for the best of them."""
