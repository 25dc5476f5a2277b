"""Where a session finds its components: a pipeline, a mapping of modules, or one module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from runtime.errors import SessionError
from runtime.model_spec import ModelSpec

Appeared = Callable[[Mapping[str, nn.Module]], None]


class ComponentSource:
    """The components of a plan in what the user gave.

    Args:
        source: a pipeline (its ``components`` by name, or its attributes), a mapping, or one module.
        model: whose components are looked for.
        names: name of a component in the model -> its name in ``source``; others are looked for by their own name, and
            in a pipeline by their class.

    Raises:
        SessionError: ``source`` is none of these, or a name is unknown.
    """

    def __init__(self, source: object, model: ModelSpec, names: Mapping[str, str]) -> None:
        unknown = sorted(set(names) - {component.name for component in model.components})
        if unknown:
            raise SessionError(f"the plan has no component {', '.join(unknown)}")
        if not isinstance(source, Mapping) and not hasattr(source, "__dict__"):
            raise SessionError(
                f"modules cannot be found in a {type(source).__name__}: give a pipeline, a mapping of component names "
                "to modules, or one module"
            )
        twice = sorted(name for name in set(names.values()) if list(names.values()).count(name) > 1)
        if twice:
            raise SessionError(f"two components of the plan are given the same module: {', '.join(map(str, twice))}")
        self._source, self._model, self._names = source, model, names
        self._is_pipeline = not isinstance(source, (nn.Module, Mapping))
        if self._is_pipeline and not any(True for _ in self._candidates()):
            raise SessionError(
                f"{type(source).__name__} holds no modules: give a pipeline, a mapping of component names to modules, "
                "or one module"
            )
        self._found: dict[str, nn.Module] = {}
        self._marked: list[nn.Module] = []
        self._pending: Appeared | None = None
        self._handle: RemovableHandle | None = None

    def find_present(self) -> dict[str, nn.Module]:
        """The components that are there now, in the model's order."""
        self._found = {}
        self._found = self._look_for_new()
        return dict(self._found)

    def module(self, name: str) -> nn.Module:
        """The module of a component that was found."""
        return self._found[name]

    def mark(self, module: nn.Module, device: torch.device) -> None:
        """Tell a pipeline of diffusers where its inputs belong: it asks the hook object of its modules."""
        if self._is_pipeline and "_hf_hook" not in module.__dict__:
            module.__dict__["_hf_hook"] = SimpleNamespace(execution_device=device)
            self._marked.append(module)

    def on_appearance(self, attach: Appeared) -> None:
        """Call ``attach`` with components that appear later: when any module is called, or ``look`` is."""
        if len(self._found) < len(self._model.components):
            self._pending = attach
            self._handle = register_module_forward_pre_hook(lambda _module, _inputs: self.look())

    def look(self) -> None:
        """Attach what has appeared since."""
        pending = self._pending
        if pending is None:
            return
        new = self._look_for_new()
        if new:
            self._pending = None  # attaching calls no module, but what it reads may
            try:
                pending(new)
                self._found.update(new)
            finally:
                self._pending = pending
        if len(self._found) == len(self._model.components):
            self._stop_looking()

    def forget(self) -> None:
        """Stop looking and remove every mark."""
        self._stop_looking()
        for module in self._marked:
            module.__dict__.pop("_hf_hook", None)
        self._marked = []

    def _stop_looking(self) -> None:
        self._pending = None
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _look_for_new(self) -> dict[str, nn.Module]:
        known = {id(module) for module in self._found.values()}
        there = dict(self._candidates())
        new: dict[str, nn.Module] = {}
        for component in self._model.components:
            if component.name in self._found:
                continue
            wanted = self._names.get(component.name, component.name)
            module = there.get(wanted)
            if module is None and component.name not in self._names and not isinstance(self._source, Mapping):
                module = self._find_by_class(component.class_name, there, known)
            if isinstance(module, nn.Module) and id(module) not in known:
                new[component.name] = module
                known.add(id(module))
        return {component.name: new[component.name] for component in self._model.components if component.name in new}

    def _find_by_class(self, class_name: str, there: Mapping[str, Any], known: set[int]) -> nn.Module | None:
        if sum(component.class_name == class_name for component in self._model.components) > 1:
            return None
        same = [
            module
            for module in {id(module): module for module in there.values() if module is not None}.values()
            if type(module).__name__ == class_name and id(module) not in known
        ]
        return same[0] if len(same) == 1 else None

    def _candidates(self) -> list[tuple[str, Any]]:
        source = self._source
        if isinstance(source, nn.Module):
            only = self._model.components[0].name if len(self._model.components) == 1 else type(source).__name__
            return [(self._names.get(only, only), source)]
        if isinstance(source, Mapping):
            return [(str(name), module) for name, module in source.items()]
        listed = getattr(source, "components", None)
        held = dict(listed) if isinstance(listed, Mapping) else {}
        held.update({name: value for name, value in vars(source).items() if isinstance(value, nn.Module)})
        return [(name, module) for name, module in held.items() if module is None or isinstance(module, nn.Module)]
