"""Pictures of one run: a module per figure, each of which returns the plain series that it draws, and the figure."""
