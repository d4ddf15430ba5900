"""What a system wrote while it served: recalls read from logs, and joined to labels."""
