"""A package, so that the trees of its conftest end with its last test and not with the session."""
