"""What `import torch` calls, as an entry point of the group torch.backends."""

from epifuse import settings


def autoload() -> None:
    """Installs the pass in Inductor's pipeline when EPIFUSE_TORCH=1, else does nothing."""
    if settings.fuse_in_inductor():
        from epifuse.torch import enable

        enable()
