"""Which weights of a module belong to which layer of its lists, and whether something else moves them already."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from runtime.errors import SessionError
from runtime.weights import Weight, list_weights

# Attributes by which other runtimes mark modules that they move.
_FOREIGN_MARKS = ("_hf_hook", "_diffusers_hook")
OWN_MARK = "_layerstream_session"


def check_unmanaged(name: str, module: nn.Module) -> None:
    """Refuse a module that something else moves already.

    Raises:
        SessionError: a session, or an offloading hook of another library, holds it.
    """
    for path, part in module.named_modules():
        where = f"{name}.{path}" if path else name
        if OWN_MARK in part.__dict__:
            raise SessionError(f"{where} is attached to a session already: detach that one first")
        for mark in _FOREIGN_MARKS:
            hook = part.__dict__.get(mark)
            if hook is not None and (mark == "_hf_hook" or getattr(hook, "hooks", None)):
                raise SessionError(
                    f"{where} is already managed by another library ({mark}: {type(hook).__name__}): its weights may "
                    "be placeholders; remove its offloading (enable_model_cpu_offload, group offloading) first"
                )


def list_layers(name: str, module: nn.Module, path: str) -> list[nn.Module]:
    """The layers of the list at ``path`` inside the component ``name``, in order of registration, each object once.

    Raises:
        SessionError: there is no list, or it is empty.
    """
    try:
        container = module.get_submodule(path)
    except AttributeError as error:
        raise SessionError(f"{name} has no list of layers at {path!r}") from error
    layers: list[nn.Module] = []
    for layer in container.children():  # the same object at two positions is one layer
        if not any(layer is known for known in layers):
            layers.append(layer)
    if not layers:
        raise SessionError(
            f"{name}.{path} is an empty list of layers: it cannot be streamed; keep the component resident instead"
        )
    return layers


def split_weights(
    name: str, module: nn.Module, paths: Mapping[str, str]
) -> tuple[list[tuple[int, Weight]], dict[int, list[Weight]]]:
    """Weights that belong to no single layer, with the id of their parameter, and those of each layer by its id.

    Args:
        name: of the component, for messages.
        module: its module.
        paths: name of each stack -> path of its list.

    Raises:
        SessionError: a path names no list, or weights have no data.
    """
    prefixes = [(f"{path}.", list_layers(name, module, path), module.get_submodule(path)) for path in paths.values()]

    def owner_of(parameter_name: str) -> int | None:
        for prefix, _, container in prefixes:
            if parameter_name.startswith(prefix):
                child = parameter_name[len(prefix) :].partition(".")[0]
                return id(container.get_submodule(child))
        return None

    owners: dict[int, set[int | None]] = {}
    named = list(module.named_parameters(remove_duplicate=False))
    for parameter_name, parameter in named:
        owners.setdefault(_identity(parameter), set()).add(owner_of(parameter_name))
    apart: list[tuple[int, Weight]] = []
    by_layer: dict[int, list[Weight]] = {}
    seen: set[int] = set()
    for parameter_name, parameter in named:
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        weights = list_weights([(f"{name}.{parameter_name}", parameter)])
        owned_by = owners[_identity(parameter)]
        only = next(iter(owned_by)) if len(owned_by) == 1 else None
        if only is None:
            apart += [(id(parameter), weight) for weight in weights]
        else:
            by_layer.setdefault(only, []).extend(weights)
    return apart, by_layer


def _identity(parameter: nn.Parameter) -> int:
    """Equal for parameters that are the same memory, tied or not."""
    address = parameter.data_ptr() if parameter.numel() and not parameter.is_meta else 0
    return address or id(parameter)
