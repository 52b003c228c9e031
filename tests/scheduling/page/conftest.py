"""A small cluster with its page for the tests of this folder."""

from tests.page.small_cluster import client, page, stranger, token_file

__all__ = ["client", "page", "stranger", "token_file"]
