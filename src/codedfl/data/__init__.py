"""From raw rows to features and labels for each device, and from Theta back to predictions."""
