"""Every code block, example, command and number in the documents is what the programs say today."""
