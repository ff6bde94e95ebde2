"""The optimize loop: profile, diagnose, change a copy, measure, keep what is proved."""
