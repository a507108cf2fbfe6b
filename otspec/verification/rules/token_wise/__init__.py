"""Trees verified token by token, each position by a rule or a solver of its own."""
