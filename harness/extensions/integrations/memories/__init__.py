"""Agent memories under equal conditions: input, and cost."""
