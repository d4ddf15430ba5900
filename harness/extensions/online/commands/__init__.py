"""The commands monitor and abtest."""
