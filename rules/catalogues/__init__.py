"""Rules that are data: rows judged by `pitstop.rules.rows`."""
