"""What people look at: the table for the terminal, and the report as one HTML file."""
