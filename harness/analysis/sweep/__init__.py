"""A sweep over parameters: chosen on a development part, reported on what was held out."""
