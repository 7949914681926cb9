"""How it is optimised: EMOTrainer, EMOConfig, and training from a config."""
