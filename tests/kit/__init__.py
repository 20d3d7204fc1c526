"""Tools that several tests share and that are not part of the product."""
