"""Experiment files, the runner that composes what they name, and the comparisons and fits made of its results."""
