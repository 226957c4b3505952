"""What people are asked to agree to: a study in plain words, and the record that they did."""
