"""What people agree to: files read or refused in one line, approvals judged and recorded before rows are frozen."""
