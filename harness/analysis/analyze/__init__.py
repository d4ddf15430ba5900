"""Why evidence was missed: one cause for each piece, by stated rules; and errata of answer keys."""
