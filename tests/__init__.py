"""The tests of runtree, laid out like the rooms they test."""
