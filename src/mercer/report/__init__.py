"""What a study found, as a record and as a page."""
