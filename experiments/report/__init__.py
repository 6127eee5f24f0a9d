"""What `mpq sim` measured, beside what the papers say: figures, a table, one page. `papers.py` is the command."""
