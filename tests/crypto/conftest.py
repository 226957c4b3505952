"""Key files, signatures and certificates: what is sealed opens to its receiver alone, and damage is refused."""
