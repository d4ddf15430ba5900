"""What was found, as columns, and the file formats that rankings come in and go out by."""
