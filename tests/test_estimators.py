from sklearn.utils.estimator_checks import parametrize_with_checks
from codedfl.estimators import CodedRidge, CodedRidgeClassifier

@parametrize_with_checks([CodedRidge(), CodedRidgeClassifier()])
def test_sk(estimator, check):
    check(estimator)
