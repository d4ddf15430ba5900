"""What a system wrote while it served: requests read from logs, and joined to labels."""
