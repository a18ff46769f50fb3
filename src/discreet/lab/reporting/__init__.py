"""What a study found, for people: a summary, a terminal table, figures and one HTML file."""
