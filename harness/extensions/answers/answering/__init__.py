"""From what was retrieved to what was answered: a reader, its judges, and what they cost.

A reader model is shown what a run returned, and answers (`answer`); a judge says of each answer
whether it is right (`judge`). Both ask an endpoint through `client`, which pays for no call twice.
Nothing here is imported by a run, and the packages that it needs come with the extra [answers].
"""
