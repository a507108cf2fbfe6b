"""Pictures that explain: small examples, solved and drawn."""
