"""What tests of several subjects make."""
