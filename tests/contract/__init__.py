"""The same cases against vLLM and its stand-in: where they differ, the stand-in is wrong."""
