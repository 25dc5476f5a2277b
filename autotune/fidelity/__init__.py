"""How true predictions are: fitting them to observed runs, comparing them with these, and carrying what is uncertain."""
