"""Tests of deciding what a table keeps and nobody needs."""
