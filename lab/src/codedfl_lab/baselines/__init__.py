"""What coded schemes are compared with: conventional federated learning and the schemes of other papers."""
