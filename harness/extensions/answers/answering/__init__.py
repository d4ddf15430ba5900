"""Generates answers with a reader model, judges them, and records what both cost.

A reader model answers each question from the results of a run (`answer`); a judge model decides
whether each answer is correct (`judge`). Both call an endpoint through `client`, which caches
replies, so no call is paid for twice. Runs import nothing from here; install the extra [answers].
"""
