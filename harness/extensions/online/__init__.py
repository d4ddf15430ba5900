"""Systems in production: importing logs, monitoring requests, and A/B tests."""
