"""Templates of the reports of an optimization."""
