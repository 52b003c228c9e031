"""Who may see the page: keys and sessions, what a request must say, and how much one viewer may take."""
