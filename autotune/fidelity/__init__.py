"""How true predictions are: fitting them to observed runs, comparing them with these, carrying what is uncertain."""
