"""What noise costs and what collusions see, against independent accountants and exhaustive linear algebra."""
