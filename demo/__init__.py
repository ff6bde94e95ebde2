"""A GitHub of our own to show and test Pitstop with. Imports nothing of Pitstop."""
