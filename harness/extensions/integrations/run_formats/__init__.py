"""Forms in which projects publish what they retrieved, one small reader a form."""
