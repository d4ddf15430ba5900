"""From a text that a system wrote to the documents of its haystack that it was made of."""
