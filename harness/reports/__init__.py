"""Reports as HTML pages: a run folder and its dataset give one JSON object, which a page draws."""
