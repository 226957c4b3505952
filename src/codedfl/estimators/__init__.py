"""The face of scikit-learn: ridge regression and classification by the coded protocol (`codedfl[estimators]`)."""
