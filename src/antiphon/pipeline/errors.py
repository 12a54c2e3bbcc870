"""What can be wrong with Spark itself, apart from what it is given."""

from antiphon.kernel.errors import UsageError


class SparkError(UsageError):
    """Spark, or the cluster that it runs on, did not start or failed."""


class NoJavaError(SparkError):
    """There is no Java that Spark could run on."""
