"""What is concluded from answers: systems beside controls, and where questions were lost."""
