"""Scorecards as data: the items of each audit and the conditions under which each is used."""
