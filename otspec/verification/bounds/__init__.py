"""What no rule can exceed: exactly on small models, by sampling at real sizes, and given a drafted tree."""
