"""A campaign: faults at random moments of whatever the product does, and what must hold after."""
