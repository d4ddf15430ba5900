"""From a text that a system wrote to the documents of its haystack that it was made of."""

from harness.scoring.matching.found import Match, Matching, Way
from harness.scoring.matching.matcher import Matcher

__all__ = ["Match", "Matcher", "Matching", "Way"]
