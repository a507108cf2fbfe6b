"""The optimal rule up to 1.2e-4, without a sort: tokens of nearly equal p/q share a bucket; in torch and in Triton."""
