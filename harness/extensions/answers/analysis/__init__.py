"""What is concluded from answers: systems beside baselines, and where questions were lost."""
