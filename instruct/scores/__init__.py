"""What systems scored, unit by unit, and the claims that follow from it."""
