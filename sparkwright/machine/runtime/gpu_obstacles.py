"""The known reasons why a container, or the host, does not get the GPU."""

from sparkwright.plan.causes.log_causes import Journal, KnownCause, table


def obstacle(output: str) -> KnownCause | None:
    """Return the cause of an error of nvidia-smi, Docker or CUDA; None for an unknown one."""
    journal = Journal(output.splitlines())
    known = (*table("gpu_proof"), *table("platform"))
    return next((each for each in known if each.evidence(journal)), None)


def refusal(output: str) -> str:
    """Return the message that a container gets no GPU."""
    words = " ".join(output.split())
    known = obstacle(output)
    if known is None:
        return f"no container gets the GPU: {words}. `nvidia-smi` and `docker info` may tell more"
    return f"no container gets the GPU. {known.cause}. {known.remedy}. It was said: {words}"
