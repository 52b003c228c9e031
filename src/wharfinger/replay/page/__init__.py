"""The page's views of replays."""
