"""Jinja templates of every text that Pitstop writes."""
