"""`otspec bench paths`: what rules accept of the same recorded trees, exactly given each tree."""
