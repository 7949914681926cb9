"""How good a text is without a judge: text metrics and few-shot tasks."""
