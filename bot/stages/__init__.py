"""`/optimize` on a pull request: gate, run and publish, with a wall between them."""
