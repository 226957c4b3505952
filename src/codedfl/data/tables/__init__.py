"""Tables as people have them: columns of numbers and of text, some values missing, from .csv, .parquet and .npz."""

from codedfl.data.tables.read import ENDINGS, no_tables, read_file, table_files
from codedfl.data.tables.table import RawTable, as_raw_table, is_table

__all__ = ["ENDINGS", "RawTable", "as_raw_table", "is_table", "no_tables", "read_file", "table_files"]
