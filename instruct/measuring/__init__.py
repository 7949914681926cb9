"""How good a text is without a judge: text metrics and tasks."""
